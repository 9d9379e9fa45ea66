"""Takes orders from answers, carries each out once, and says how it went as an event.

A key is written down before its order is carried out: a process that dies in between does not do it
again, and the hub hears nothing of that order, which expires.
"""

import json
import logging
import threading
import time
from pathlib import Path
from typing import Callable, Dict, FrozenSet, List, Mapping, Protocol, Sequence

from agent.actions.draining import Draining
from agent.actions.order_taking import Answers
from agent.actions.orders import DRAIN, STOP, Order, OrderError, believed, signing_key
from agent.actions.seen import Seen
from agent.actions.stopping import Stopping
from agent.batch import ClosedWindow
from agent.json_parts import Object, object_of
from agent.readings import Event, Events, SchedulerError
from agent.sending.store import write_safely

log = logging.getLogger("agent.actions")

KEPT_MS = 24 * 60 * 60_000  # of a key: far longer than any order is good


class Deed(Protocol):
    """What an order asks for, which what this agent saw allows."""

    def look(self) -> str:
        """What is to be done, in words; changes nothing. Raises OrderError and SchedulerError."""

    def do(self) -> None:
        """Does it. Raises OrderError and SchedulerError."""


# each raises OrderError where it is not allowed now
DEEDS: Mapping[str, Callable[[Order, Seen, int], Deed]] = {STOP: Stopping, DRAIN: Draining}


class Runner:
    """The orders of one hub to one node. `take` is called by the pump's thread, `note` and `events`
    by the loop's; what is carried out runs in the pump's, which then waits for a command.
    """

    def __init__(
        self,
        node: str,
        allowed: FrozenSet[str],
        folder: Path,
        *,
        token: Callable[[], str],
        window_ms: int,
        now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
    ) -> None:
        self._node = node
        self._allowed = allowed
        self._file = folder / "orders.json"
        self._token = token
        self._now_ms = now_ms
        self._seen = Seen(window_ms)
        self._lock = threading.Lock()
        self._answers = Answers(now_ms)
        self._done = _read(self._file)

    def note(self, closed: ClosedWindow, events: Events) -> None:
        """A window that was closed, and what was told meanwhile."""
        with self._lock:
            self._seen.note(closed, events)

    def events(self) -> List[Event]:
        """What became of orders since this was asked last."""
        return self._answers.take()

    def take(self, orders: Sequence[Object]) -> None:
        """Carries out those that are new."""
        for key, order in self._answers.unanswered(orders):
            if key not in self._done:
                self._answers.tell(key, self._outcome(order))

    def _outcome(self, raw: Object) -> str:
        """What became of the order, in words."""
        try:
            now_ms = self._now_ms()
            key = signing_key(self._token())
            order = believed(raw, key=key, node=self._node, now_ms=now_ms)
            self._note_done(order.key, order.expires_ms)
            return self._carry_out(order, now_ms)
        except (OrderError, SchedulerError, OSError) as error:
            return "refused: %s" % error

    def _carry_out(self, order: Order, now_ms: int) -> str:
        if order.kind not in self._allowed:
            raise OrderError("this host's operator does not allow %s" % order.kind)
        with self._lock:
            deed = DEEDS[order.kind](order, self._seen, now_ms)
        text = deed.look()
        if order.is_dry_run:
            return "would: %s" % text
        log.warning("carrying out what=%s reason=%s", text, order.reason)
        deed.do()
        return "done: %s" % text

    def _note_done(self, key: str, until_ms: int) -> None:
        """Raises OSError: what can't be written down is not carried out."""
        now_ms = self._now_ms()
        kept = {old: at_ms for old, at_ms in self._done.items() if at_ms > now_ms - KEPT_MS}
        kept[key] = until_ms
        write_safely(self._file, json.dumps(kept).encode("ascii"), mode=0o600)
        self._done = kept


def _read(path: Path) -> Dict[str, int]:
    try:
        kept = object_of(path.read_bytes())
    except OSError:
        return {}
    return {key: at_ms for key, at_ms in kept.items() if isinstance(at_ms, int)}
