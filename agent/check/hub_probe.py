"""What `check` asks of the hub: is it there, is it well, does its clock agree, does it take this
node's token.

Nothing is stored and no token is exchanged: an empty batch is refused behind the door that looks at
tokens.
"""

import ssl
import time
from typing import List, Optional

from agent.check.report import Finding, clipped
from agent.clock import date_s
from agent.json_parts import object_of
from agent.sending.connection import Answer, cause_of
from agent.sending.sender import ENROLL_PATH, NO_ANSWER, PATH, Sender

TIMEOUT_S = 10.0
JSON = {"Accept": "application/json"}
MAX_SKEW_S = 2.0  # beyond it the hub corrects and flags; the Date header has whole seconds
HOW_TO_GET_ONE = "create one on the hub: its page of tokens, or manage.py create_agent_token NODE"


class Hub:
    """One hub, asked with one token."""

    def __init__(self, server: str, token: str, *, ca_file: Optional[str] = None) -> None:
        self._server = server
        self._token = token
        self._sender = Sender(server, token, ca_file=ca_file, timeout_s=TIMEOUT_S)

    def look(self) -> List[Finding]:
        """What the hub says, from the door inwards; what can't be asked any more is left out."""
        asked_s = time.time()
        try:
            ready = self._sender.ask("GET", "/readyz", None, JSON)
        except NO_ANSWER as error:
            text = "%s can't be reached: %s" % (self._server, _reason(error))
            what = "is the address right, and is it open from here? curl -v %s/readyz"
            return [Finding("hub", "no", text, what % self._server)]
        offset_s = _offset_s(ready.headers.get("Date"), asked_s, time.time())
        findings = [self._readiness(ready), _clock(offset_s)]
        return [*findings, self._of_token()] if self._token else findings

    def _readiness(self, answer: Answer) -> Finding:
        body = object_of(answer.body)
        missing = body.get("missing")
        if answer.status == 200 and body.get("ready") is True:
            return Finding("hub", "ok", "%s is ready" % self._server)
        if answer.status == 503 and isinstance(missing, list):
            text = "%s is up, but misses: %s" % (self._server, ", ".join(map(str, missing)))
            what = "batches wait here until it is well: see the hub's own log"
            return Finding("hub", "warn", clipped(text, 300), what)
        text = "%s answers %d: is it a FleetWatch hub?" % (self._server, answer.status)
        return Finding("hub", "no", text, "give the hub's own address as --server, without a path")

    def _of_token(self) -> Finding:
        try:
            batch = self._post(PATH)
            is_enrolment = batch.status == 401 and self._post(ENROLL_PATH).status == 422
        except NO_ANSWER as error:
            return Finding(
                "token", "no", "it could not be tried: %s" % _reason(error), "run check again"
            )
        if is_enrolment:
            text = "an enrolment token: the first start exchanges it for this node's own"
            return Finding("token", "ok", text)
        if batch.status == 422:
            return Finding("token", "ok", "the hub takes it")
        why = clipped(str(object_of(batch.body).get("error") or "no reason given"), 200)
        if batch.status in (401, 403):
            return Finding("token", "no", "the hub refuses it: %s" % why, HOW_TO_GET_ONE)
        text = "the hub answers %d: %s" % (batch.status, why)
        return Finding("token", "warn", text, "run check again")

    def _post(self, path: str) -> Answer:
        """The answer to a body that nothing can be made of."""
        token = {"Authorization": "Bearer " + self._token, "Content-Type": "application/json"}
        return self._sender.ask("POST", path, b"{}", {**JSON, **token})


def _clock(offset_s: Optional[float]) -> Finding:
    """`offset_s` is the hub's clock minus ours, as much of it as is certain."""
    if offset_s is None:
        return Finding("clock", "-", "the hub does not tell its time")
    text = (
        "%+.0f s against the hub's" % -offset_s if abs(offset_s) >= 1 else "agrees with the hub's"
    )
    if abs(offset_s) <= MAX_SKEW_S:
        return Finding("clock", "ok", text)
    what = "set up time synchronisation (chrony, systemd-timesyncd): timedatectl shows its state"
    return Finding("clock", "warn", text, what)


def _offset_s(date: Optional[str], asked_s: float, answered_s: float) -> Optional[float]:
    """The hub's clock minus ours, as near to none as it can be.

    The hub wrote its Date between the two, up to a second after the Date's second began: what lies
    within that may be the way, and no clock that is off.
    """
    hub_s = date_s(date)
    if hub_s is None:
        return None
    return min(max(0.0, hub_s - answered_s), hub_s + 1 - asked_s)


def _reason(error: Exception) -> str:
    reason = cause_of(error)
    if isinstance(reason, ssl.SSLCertVerificationError):
        return (
            "its certificate is not trusted (%s); --ca-file names whom to trust"
            % reason.verify_message
        )
    if isinstance(reason, ssl.SSLError):
        return "it does not speak TLS as it should (%s): is it http://?" % clipped(
            reason.reason or str(reason), 100
        )
    return clipped(str(getattr(reason, "strerror", None) or reason) or type(reason).__name__, 200)
