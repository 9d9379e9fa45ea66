"""Batches from the spool to the hub: one POST at a time, oldest first.

ACCEPTED: the hub committed it, it is forgotten. REJECTED: it can never be accepted, it is set
aside. TOO_LARGE: it is split. RETRY: everything else, an outage, a refused token, a full hub: it is
kept and sent again later.
"""

import enum
import http.client
import json
import logging
import random
import re
import ssl
import threading
import time
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Callable, Mapping, Optional, Sequence

from agent import __version__, packed
from agent.clock import HubClock, date_s
from agent.json_parts import Object, object_of, parts
from agent.lines import printable
from agent.sending.connection import Answer, HubConnection, cause_of, is_proxied
from agent.sending.payloads import PACKED, body_for
from agent.sending.split import split
from agent.sending.spool import Spool
from agent.sending.store import Entry

log = logging.getLogger("agent.sending.sender")

PATH = "/api/v1/batches"
ENROLL_PATH = "/api/v1/enroll"
ALIVE_PATH = "/healthz"
TIMEOUT_S = 30.0
MAX_SAID = 200
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0
TOKEN_WAIT_S = 60.0  # a refused token heals only when a person acts
LONGEST_RETRY_AFTER_S = 3600.0
MIN_FLUSH_S = 1
MAX_FLUSH_S = 300
# So many times the hub failed at one batch before the next one is tried: if it takes that, this one
# waits, and the others go on.
FAILURES_OF_ONE = 5
RETURN_EVERY_S = 3600.0  # and is tried again so often
HUB_IS_AWAY = frozenset((502, 503, 504))  # says nothing of the batch
JSON = {"Content-Type": "application/json"}
AGENT = {"User-Agent": "fleetwatch-agent/" + __version__}
NO_ANSWER = (OSError, http.client.HTTPException, ValueError)
REMIND_EVERY = 20  # the same trouble is logged again after this many attempts


class Verdict(enum.Enum):
    """What the hub's answer means for the batch."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    TOO_LARGE = "too large"
    RETRY = "retry"


VERDICTS = {422: Verdict.REJECTED, 413: Verdict.TOO_LARGE}
NEEDS_A_PERSON = (401, 403)


@dataclass(frozen=True)
class Outcome:
    """The answer to one POST.

    `wait_s` is the least to wait before the next one; `text` is for the operator.
    """

    verdict: Verdict
    text: str = ""
    status: Optional[int] = None
    wait_s: Optional[float] = None
    next_flush_s: Optional[int] = None
    orders: Sequence[Object] = ()  # what the hub wants done

    @property
    def is_token_refused(self) -> bool:
        return self.status in NEEDS_A_PERSON

    @property
    def is_refusal(self) -> bool:
        """Whether trying again is of no use before a person has acted."""
        return self.is_token_refused or self.verdict is Verdict.REJECTED

    @property
    def is_failure(self) -> bool:
        """Whether the hub failed at this very batch, as far as its answer tells."""
        return self.status is not None and self.status >= 500 and self.status not in HUB_IS_AWAY


Send = Callable[[bytes], Outcome]  # of a payload


class Sender:
    """Speaks to one hub with one token."""

    def __init__(
        self,
        server: str,
        token: str,
        *,
        ca_file: Optional[str] = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._server = server.rstrip("/")
        self._hub_clock = HubClock()
        self._has_asked = False
        self._takes_packed = False
        self._token = token
        way: Any = HubConnection
        if is_proxied():
            way = import_module("agent.sending.proxied").ProxiedConnection
        tls = ssl.create_default_context(cafile=ca_file)
        self._way = way(self._server, tls=tls, timeout_s=timeout_s, note_date=self._hub_clock.note)

    def send(self, payload: bytes) -> Outcome:
        """What the hub said to this batch; trouble on the way is a RETRY, never an exception."""
        try:
            if not self._has_asked:
                # without the hub's clock a first batch that is slow on its way would pass for one
                # of a clock that is behind
                self._note_forms(self.ask("HEAD", ALIVE_PATH))
                self._has_asked = True
            body = body_for(payload, takes_packed=self._takes_packed)
            answer = self.ask("POST", PATH, body.payload, {**self._headers(), **body.headers})
            self._note_forms(answer)
            if body.headers is PACKED and _refuses_form(answer):
                self._takes_packed = False  # an earlier version took the hub's place
                return self.send(payload)
            return _judge(answer)
        except NO_ANSWER as error:
            return Outcome(
                Verdict.RETRY, "the hub at %s%s %s" % (self._server, PATH, _trouble(error))
            )

    def enroll(self, node: str, *, earlier: Optional[str] = None) -> Optional[str]:
        """The node's own token in exchange for this one; that of an earlier exchange where the hub
        says that the node has one; else None.
        """
        body = json.dumps({"node": node}).encode("utf-8")
        try:
            answer = self.ask("POST", ENROLL_PATH, body, {**self._headers(), **JSON})
        except NO_ANSWER:
            return None
        if answer.status == 409:
            return earlier
        token = object_of(answer.body).get("token")
        return token if answer.status == 201 and isinstance(token, str) else None

    def ask(
        self,
        method: str,
        path: str,
        body: Optional[bytes] = None,
        headers: Mapping[str, str] = {},
    ) -> Answer:
        """The hub's answer, whatever it is. Raises one of NO_ANSWER where there is none."""
        answer: Answer = self._way.ask(method, path, body, {**AGENT, **headers})
        return answer

    def _note_forms(self, answer: Answer) -> None:
        """The hub says in which forms it takes batches: https://www.w3.org/TR/ldp/#header-accept-post."""
        forms = answer.headers.get("Accept-Post")
        if forms is not None:
            self._takes_packed = packed.CONTENT_TYPE in forms

    def _headers(self) -> Mapping[str, str]:
        hub_ms = self._hub_clock.earliest_ms()
        return {
            **({} if hub_ms is None else {"X-FleetWatch-Hub-Ms": str(hub_ms)}),
            "Authorization": "Bearer " + self._token,
            "X-FleetWatch-Sent-Ms": str(int(time.time() * 1000)),
        }


def _trouble(error: Exception) -> str:
    """What an operator can do something about, in one line."""
    reason = cause_of(error)
    if isinstance(reason, ssl.SSLCertVerificationError):
        return (
            "has a certificate that is not trusted (%s); its authority can be given as --ca-file"
            % clean(reason.verify_message)
        )
    if isinstance(reason, ssl.SSLError):
        return "does not speak TLS as it should (%s)" % clean(str(reason.reason or reason))
    return "can't be reached: %s" % clean(str(reason) or type(reason).__name__)


def clean(text: str) -> str:
    """What somebody else said, fit for a line of the log."""
    return printable(text[:MAX_SAID], "?")


def _refuses_form(answer: Answer) -> bool:
    return answer.status == 422 and object_of(answer.body).get("field") == "Content-Type"


def _judge(answer: Answer) -> Outcome:
    content = object_of(answer.body)
    if 200 <= answer.status < 300:
        return _accepted(answer.status, content)
    wait_s = retry_after_s(answer.headers.get("Retry-After"), now=time.time())
    if answer.status in NEEDS_A_PERSON or 300 <= answer.status < 400:
        wait_s = TOKEN_WAIT_S
    verdict = VERDICTS.get(answer.status, Verdict.RETRY)
    return Outcome(verdict, _refusal(answer, content), answer.status, wait_s=wait_s)


def _refusal(answer: Answer, content: Object) -> str:
    """What an answer that takes nothing says to the operator."""
    status = answer.status
    error = content.get("error")
    if status == 413:
        return "the batch is too large for the hub"
    if status in NEEDS_A_PERSON:
        return (
            "the hub refuses this agent's token (%d: %s): give it a new one, made on the hub's"
            " settings page" % (status, clean(str(error or "no reason given")))
        )
    if 300 <= status < 400:
        where = clean(answer.headers.get("Location", "nowhere"))
        return "the hub answers with a redirect to %s: give that address as the server" % where
    reason = clean("%s: %s" % (content.get("field") or "batch", error)) if error else ""
    if status == 422:
        return "the hub can never accept this batch: " + (reason or "422")
    if status == 404 and not reason:
        reason = "is this the address of a FleetWatch hub?"
    return "the hub answers %d%s" % (status, reason and ": " + reason)


def _accepted(status: int, content: Object) -> Outcome:
    """A 200 of a proxy's login page is no acknowledgement: only the hub's own words are."""
    if "stored" not in content:
        text = "something that is no FleetWatch hub answers %d" % status
        return Outcome(Verdict.RETRY, text, status, wait_s=TOKEN_WAIT_S)
    flush_s: Any = content.get("next_flush_s")
    is_number = type(flush_s) in (int, float)
    return Outcome(
        Verdict.ACCEPTED,
        _refused(parts(content, "refused")),
        status,
        next_flush_s=int(min(MAX_FLUSH_S, max(MIN_FLUSH_S, flush_s))) if is_number else None,
        orders=parts(content, "actions"),
    )


def _refused(gpus: Sequence[Object]) -> str:
    """Which GPU's windows the hub keeps and does not count, and why; "" when it counts them all."""
    if not gpus:
        return ""
    first = "%s: %s" % (gpus[0].get("gpu"), gpus[0].get("why"))
    more = " (and %d more)" % (len(gpus) - 1) if len(gpus) > 1 else ""
    return "the hub does not count the windows of " + clean(first) + more


def retry_after_s(value: Optional[str], *, now: float) -> Optional[float]:
    """Seconds that a Retry-After header asks for, as seconds or as a date, at most an hour; None
    when it says nothing.
    """
    if value is None:
        return None
    if re.fullmatch(r"\s*[0-9]{1,9}\s*", value):
        return min(LONGEST_RETRY_AFTER_S, float(value))
    until = date_s(value)
    if until is None:
        return None
    return min(LONGEST_RETRY_AFTER_S, max(0.0, until - now))


def wait_s(outcome: Outcome, *, failures: int, jitter: float) -> float:
    """Seconds before the next attempt: doubling from 1 to 60 s, or what the answer asks for if that
    is longer.

    jitter is 0 to 1: a fleet that lost its hub must not come back in one second.
    """
    doubled: float = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** min(failures, 10))
    backoff = doubled * (0.5 + 0.5 * jitter)
    return backoff if outcome.wait_s is None else max(backoff, outcome.wait_s * (1 + 0.1 * jitter))


class Pump:
    """Empties the spool into the hub, one batch after the other; owns what an answer does to a
    batch.

    `ends_at_refusal` is for a command whose last words are the refusal: it is not logged before.
    `obey` is given the orders of an answer, where this host lets the hub have something done.
    """

    def __init__(
        self,
        spool: Spool,
        send: Send,
        *,
        flush_s: int,
        ends_at_refusal: bool = False,
        obey: Optional[Callable[[Sequence[Object]], None]] = None,
    ) -> None:
        self._obey = obey
        self.flush_s = flush_s  # the hub may ask for another
        self.last: Optional[Outcome] = None
        self.rejected = 0
        # what the hub said of the last batch that was set aside
        self.last_refusal: Optional[str] = None
        self._spool = spool
        self._send = send
        self._ends_at_refusal = ends_at_refusal
        self._failures = 0
        self._is_trying_next = False
        self._return_at = 0.0
        self._wake = threading.Event()

    def wake(self) -> None:
        """There is something new in the spool, or it is time to stop."""
        self._wake.set()

    def step(self) -> Optional[float]:
        """Sends the oldest batch; seconds to wait before the next, None when nothing waits."""
        entry = self._spool.peek()
        if entry is None:
            return None
        outcome = self._send(entry.payload)
        self._log_change(outcome)
        self.last = outcome
        if outcome.verdict is Verdict.RETRY:
            return self._after_failure(entry, outcome)
        self._failures = 0
        self._settle(entry, outcome)
        self._after_success()
        return 0.0

    def _after_failure(self, entry: Entry, outcome: Outcome) -> float:
        """Seconds to wait.

        A batch at which the hub fails again and again is passed over, if it takes the one behind
        it.
        """
        delay = wait_s(outcome, failures=self._failures, jitter=random.random())
        self._failures += 1
        if self._is_trying_next:  # it was not that one batch
            self._is_trying_next = False
            self._spool.go_back()
        elif (
            outcome.is_failure
            and self._failures >= FAILURES_OF_ONE
            and self._spool.pass_over(entry.sequence)
        ):
            self._is_trying_next = True
        return delay

    def _after_success(self) -> None:
        now = time.monotonic()
        if self._is_trying_next:
            self._is_trying_next = False
            self._return_at = now + RETURN_EVERY_S
            log.error(
                "the hub fails at one batch and takes others: it waits (batches passed over=%d)",
                self._spool.passed_over,
            )
        elif self._spool.passed_over and now >= self._return_at:
            self._return_at = now + RETURN_EVERY_S
            self._spool.go_back()

    def _settle(self, entry: Entry, outcome: Outcome) -> None:
        if outcome.verdict is Verdict.ACCEPTED:
            self.last_refusal = outcome.text or self.last_refusal
            self.flush_s = outcome.next_flush_s or self.flush_s
            self._spool.ack(entry.sequence)
            if outcome.orders and self._obey is not None:
                self._obey(outcome.orders)
            return
        halves = split(entry) if outcome.verdict is Verdict.TOO_LARGE else None
        if halves is not None:
            self._spool.replace(entry.sequence, halves)
            return
        self.rejected += 1
        self.last_refusal = outcome.text
        kept = self._spool.set_aside(entry.sequence, reason=str(outcome.status))
        if self._ends_at_refusal:
            return
        log.error(
            "batch set aside sequence=%d windows=%d status=%s file=%s",
            entry.sequence,
            entry.windows,
            outcome.status,
            kept,
        )

    def _log_change(self, outcome: Outcome) -> None:
        """One line when things go wrong or well again, and a reminder now and then."""
        if self._ends_at_refusal and outcome.is_refusal:
            return
        before = self.last.text if self.last is not None else ""
        if self.last is None and outcome.verdict is Verdict.ACCEPTED:
            log.info("the hub accepts batches")
        if outcome.text and (
            outcome.text != before or self._failures % REMIND_EVERY == REMIND_EVERY - 1
        ):
            log.warning("%s (batches waiting=%d)", outcome.text, self._spool.waiting)
        elif before and not outcome.text:
            log.info("the hub accepts batches again")

    def run(self, stop: threading.Event) -> None:
        """Until stop: sends what waits, then sleeps until there is more.

        The disk's troubles pass like the network's.
        """
        while not stop.is_set():
            self._wake.clear()
            try:
                delay = self.step()
            except Exception:  # the top of a thread: without it nothing would ever be sent again
                log.exception("sending failed")
                delay = LONGEST_WAIT_S
            if delay is None:
                self._wake.wait()
            elif delay:
                stop.wait(delay)

    def drain(self, *, deadline: float) -> None:
        """Sends what waits until something fails or time.monotonic() passes the deadline: the last
        act before an exit.
        """
        try:
            while time.monotonic() < deadline and self.step() == 0.0:
                pass
        except Exception:  # as in run
            log.exception("sending failed")
