"""Back-pressure: while sealing lags, agents are asked for longer batches, and in the end sent away
with them.

A batch costs sealing about the same whatever its length, and the hot table can only
be dropped once it is sealed. Agents that are sent away keep their batches on disk.

How far sealing lags is how long batches wait: the same of a hundred nodes and of ten thousand, and
what agents that were away bring together is not old because it is much. Few that wait are no lag,
however long they do: hours that can't be sealed, say, keep no others away.
"""

import threading
import time
from datetime import datetime, timedelta

from fleetwatch.inventory.models import Node
from fleetwatch.telemetry.selectors import have_waited_to_be_sealed

# Few are less than what half of the nodes send in an hour, and these of any fleet: a hundred
# (node, hour) that fail.
FEW_OF_NODE = 50
FEW = 10_000
# since those that wait longest could have been sealed, which takes two minutes
SLOWER_FROM = timedelta(hours=2)
REFUSED_FROM = timedelta(days=1)
NEXT_FLUSH_S = 30
SLOWER_FLUSH_S = 120
RETRY_AFTER_S = 60
LOOK_EVERY_S = 15.0


class OverloadedError(Exception):
    """Too much waits to be sealed: the sender keeps the batch and comes again later."""


class Pressure:
    """How long batches wait to be sealed, as this process saw it last."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waited = timedelta()
        self._look_at = 0.0

    def measure(self, now: datetime) -> None:
        """Looks anew when the last look is LOOK_EVERY_S ago; one thread looks for all."""
        with self._guard:
            if time.monotonic() < self._look_at:
                return
            self._look_at = time.monotonic() + LOOK_EVERY_S
        self._waited = waiting_for(now)

    def forget(self) -> None:
        """The next batch looks anew."""
        self._waited = timedelta()
        self._look_at = 0.0

    def check(self) -> None:
        """Raises OverloadedError while they wait too long."""
        if self.is_refusing:
            raise OverloadedError("batches of a day ago wait to be sealed: come again later")

    @property
    def is_refusing(self) -> bool:
        """Whether batches are sent away."""
        return self._waited >= REFUSED_FROM

    @property
    def next_flush_s(self) -> int:
        """How long the next batches should be."""
        return SLOWER_FLUSH_S if self._waited >= SLOWER_FROM else NEXT_FLUSH_S


def meaning(waited: timedelta) -> str:
    """What it does to agents that batches wait so long (`waiting_for`), in words."""
    if waited >= REFUSED_FROM:
        return "many for a day: agents are told to come again later, and keep their batches"
    return (
        f"many for two hours: agents are asked for batches of {SLOWER_FLUSH_S} s"
        if waited >= SLOWER_FROM
        else "in closed hours, still in the hot table"
    )


def waiting_for(now: datetime) -> timedelta:
    """The longest of the two times that many batches have waited for; zero where few have."""
    many = max(FEW, FEW_OF_NODE * Node.objects.count())
    if not have_waited_to_be_sealed(many, SLOWER_FROM, now):
        return timedelta()
    return REFUSED_FROM if have_waited_to_be_sealed(many, REFUSED_FROM, now) else SLOWER_FROM


pressure = Pressure()
