"""Back-pressure: while sealing lags, agents are asked for longer batches, and in the end sent away
with them.

A batch costs sealing about the same whatever its length, and the hot table can only
be dropped once it is sealed. Agents that are sent away keep their batches on disk.
"""

import threading
import time
from datetime import datetime

from fleetwatch.telemetry.selectors import overdue_batches

# Batches that could have been sealed (a batch of two hours counts twice). 1,250 nodes that send
# every minute bring 75,000 an hour.
SLOWER_FROM = 150_000
REFUSED_FROM = 1_500_000
NEXT_FLUSH_S = 30
SLOWER_FLUSH_S = 120
RETRY_AFTER_S = 60
LOOK_EVERY_S = 15.0


class OverloadedError(Exception):
    """Too much waits to be sealed: the sender keeps the batch and comes again later."""


class Pressure:
    """What waits, as this process saw it last."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._backlog = 0
        self._look_at = 0.0

    def measure(self, now: datetime) -> None:
        """Counts anew when the last look is LOOK_EVERY_S ago; one thread looks for all."""
        with self._guard:
            if time.monotonic() < self._look_at:
                return
            self._look_at = time.monotonic() + LOOK_EVERY_S
        self._backlog = overdue_batches(now, limit=REFUSED_FROM)

    def forget(self) -> None:
        """The next look counts anew."""
        self._backlog = 0
        self._look_at = 0.0

    def check(self) -> None:
        """Raises OverloadedError while too much waits."""
        if self._backlog >= REFUSED_FROM:
            raise OverloadedError(f"{self._backlog} batches wait to be sealed: come again later")

    @property
    def is_refusing(self) -> bool:
        """Whether batches are sent away."""
        return self._backlog >= REFUSED_FROM

    @property
    def next_flush_s(self) -> int:
        """How long the next batches should be."""
        return SLOWER_FLUSH_S if self._backlog >= SLOWER_FROM else NEXT_FLUSH_S


def meaning(backlog: int) -> str:
    """What so many overdue batches do to agents, in words."""
    if backlog >= REFUSED_FROM:
        return "too many: agents are told to come again later, and keep their batches"
    return (
        f"many: agents are asked for batches of {SLOWER_FLUSH_S} s"
        if backlog >= SLOWER_FROM
        else "in closed hours, still in the hot table"
    )


pressure = Pressure()
