"""What is said of orders: each once, as events that have moments of their own."""

import logging
import threading
from collections import deque
from typing import Callable, Deque, List, Protocol, Sequence, Tuple

from agent.batch import ClosedWindow
from agent.json_parts import Object
from agent.readings import Event, Events

log = logging.getLogger("agent.actions")

MAX_ORDERS = 16  # of one answer
NOTHING_ALLOWED = "refused: this host's operator allows no orders (--allow-actions)"


class OrderTaker(Protocol):
    """What orders are given to. `take` is called by the pump's thread, `note` and `events` by the
    loop's.
    """

    def note(self, closed: ClosedWindow, events: Events) -> None:
        """A window that was closed, and what was told meanwhile."""

    def events(self) -> List[Event]:
        """What became of orders since this was asked last."""

    def take(self, orders: Sequence[Object]) -> None:
        """Orders of an answer, new ones and known ones."""


class Answers:
    """Given by the pump's thread, taken by the loop's."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._events: List[Event] = []
        self._newest_ms = 0  # of the events
        # whether it was believed or not: once is enough
        self._answered: Deque[str] = deque(maxlen=256)

    def unanswered(self, orders: Sequence[Object]) -> List[Tuple[str, Object]]:
        """By its key each order that was not answered yet; they are from now on."""
        fresh = []
        for order in orders[:MAX_ORDERS]:
            key = str(order.get("key"))[:64]
            if key not in self._answered:
                self._answered.append(key)
                fresh.append((key, order))
        return fresh

    def tell(self, key: str, text: str) -> None:
        """What became of the order of that key."""
        log.info("order key=%s %s", key, text)
        with self._lock:
            # the hub takes two events of one kind and moment for one
            self._newest_ms = max(self._now_ms(), self._newest_ms + 1)
            event = Event(self._newest_ms, "action_result", text="%s %s" % (key, text))
            self._events.append(event)

    def take(self) -> List[Event]:
        """What was told since this was asked last."""
        with self._lock:
            events = self._events
            self._events = []
        return events


class Refuser:
    """In a runner's place where the operator allows nothing: says so of each order, so that nobody
    waits for it.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._answers = Answers(now_ms)

    def note(self, closed: ClosedWindow, events: Events) -> None:
        """Windows decide nothing here."""

    def events(self) -> List[Event]:
        """What was said since this was asked last."""
        return self._answers.take()

    def take(self, orders: Sequence[Object]) -> None:
        """Refuses those that are new."""
        for key, _ in self._answers.unanswered(orders):
            self._answers.tell(key, NOTHING_ALLOWED)
