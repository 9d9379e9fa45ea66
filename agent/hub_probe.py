"""What `check` asks of the hub: is it there, is it well, does its clock agree, does it take this
node's token.

Nothing is stored and no token is exchanged: an empty batch is refused behind the door that looks at
tokens.
"""

import http.client
import ssl
import time
from typing import List, Mapping, NamedTuple, Optional
from urllib.parse import urlsplit

from agent import __version__
from agent.clock import date_s
from agent.json_parts import object_of
from agent.report import Finding, clipped

TIMEOUT_S = 10.0
MAX_ANSWER_BYTES = 64 * 1024
MAX_SKEW_S = 2.0  # beyond it the hub corrects and flags; the Date header has whole seconds
HOW_TO_GET_ONE = "create one on the hub: its page of tokens, or manage.py create_agent_token NODE"


class Answer(NamedTuple):
    """One answer of the hub.

    `offset_s` is its clock minus ours, as much of it as is certain; None where it does not say.
    """

    status: int
    body: Mapping[str, object]
    offset_s: Optional[float] = None


class Hub:
    """One hub, asked with one token."""

    def __init__(self, server: str, token: str, *, ca_file: Optional[str] = None) -> None:
        self._server = server
        self._token = token
        self._ca_file = ca_file

    def look(self) -> List[Finding]:
        """What the hub says, from the door inwards; what can't be asked any more is left out."""
        try:
            ready = self._ask("GET", "/readyz")
        except (OSError, http.client.HTTPException) as error:
            what = (
                "is the address right, and is it open from here? curl -v %s/readyz" % self._server
            )
            return [
                Finding(
                    "hub", "no", "%s can't be reached: %s" % (self._server, _reason(error)), what
                )
            ]
        return [
            self._readiness(ready),
            self._clock(ready),
            *([self._of_token()] if self._token else []),
        ]

    def _readiness(self, answer: Answer) -> Finding:
        missing = answer.body.get("missing")
        if answer.status == 200 and answer.body.get("ready") is True:
            return Finding("hub", "ok", "%s is ready" % self._server)
        if answer.status == 503 and isinstance(missing, list):
            text = "%s is up, but misses: %s" % (
                self._server,
                ", ".join(str(name) for name in missing),
            )
            return Finding(
                "hub",
                "warn",
                clipped(text, 300),
                "batches wait here until it is well: see the hub's own log",
            )
        text = "%s answers %d: is it a FleetWatch hub?" % (self._server, answer.status)
        return Finding("hub", "no", text, "give the hub's own address as --server, without a path")

    def _clock(self, answer: Answer) -> Finding:
        if answer.offset_s is None:
            return Finding("clock", "-", "the hub does not tell its time")
        text = (
            "%+.0f s against the hub's" % -answer.offset_s
            if abs(answer.offset_s) >= 1
            else "agrees with the hub's"
        )
        if abs(answer.offset_s) <= MAX_SKEW_S:
            return Finding("clock", "ok", text)
        return Finding(
            "clock",
            "warn",
            text,
            "set up time synchronisation (chrony, systemd-timesyncd): timedatectl shows its state",
        )

    def _of_token(self) -> Finding:
        try:
            batch = self._ask("POST", "/api/v1/batches")
            if batch.status == 401 and self._ask("POST", "/api/v1/enroll").status == 422:
                return Finding(
                    "token",
                    "ok",
                    "an enrolment token: the first start exchanges it for this node's own",
                )
        except (OSError, http.client.HTTPException) as error:
            return Finding(
                "token", "no", "it could not be tried: %s" % _reason(error), "run check again"
            )
        if batch.status == 422:
            return Finding("token", "ok", "the hub takes it")
        if batch.status in (401, 403):
            return Finding("token", "no", "the hub refuses it: %s" % _said(batch), HOW_TO_GET_ONE)
        return Finding(
            "token",
            "warn",
            "the hub answers %d: %s" % (batch.status, _said(batch)),
            "run check again",
        )

    def _ask(self, method: str, path: str) -> Answer:
        """Raises OSError or HTTPException where there is no answer.

        A redirect is not followed: the token goes nowhere else.
        """
        parts = urlsplit(self._server)
        connection = self._connection(parts.scheme == "https", parts.hostname or "", parts.port)
        headers = {"User-Agent": "fleetwatch-agent/" + __version__, "Accept": "application/json"}
        if method == "POST":
            headers.update(
                {"Authorization": "Bearer " + self._token, "Content-Type": "application/json"}
            )
        asked_s = time.time()
        try:
            connection.request(
                method,
                parts.path.rstrip("/") + path,
                body=b"{}" if method == "POST" else None,
                headers=headers,
            )
            response = connection.getresponse()
            offset_s = _offset_s(response.headers.get("Date"), asked_s, time.time())
            return Answer(response.status, object_of(response.read(MAX_ANSWER_BYTES)), offset_s)
        finally:
            connection.close()

    def _connection(
        self, is_tls: bool, host: str, port: Optional[int]
    ) -> http.client.HTTPConnection:
        if not is_tls:
            return http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
        return http.client.HTTPSConnection(
            host, port, timeout=TIMEOUT_S, context=ssl.create_default_context(cafile=self._ca_file)
        )


def _offset_s(date: Optional[str], asked_s: float, answered_s: float) -> Optional[float]:
    """The hub's clock minus ours, as near to none as it can be.

    The hub wrote its Date between the two, up to a second after the Date's second began: what lies
    within that may be the way, and no clock that is off.
    """
    hub_s = date_s(date)
    if hub_s is None:
        return None
    return min(max(0.0, hub_s - answered_s), hub_s + 1 - asked_s)


def _said(answer: Answer) -> str:
    return clipped(str(answer.body.get("error") or "no reason given"), 200)


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            "its certificate is not trusted (%s); --ca-file names whom to trust"
            % error.verify_message
        )
    if isinstance(error, ssl.SSLError):
        return "it does not speak TLS as it should (%s): is it http://?" % clipped(
            error.reason or str(error), 100
        )
    return clipped(str(getattr(error, "strerror", None) or error) or type(error).__name__, 200)
