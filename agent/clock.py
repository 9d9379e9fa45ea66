"""The time of day that does not jump within a window: the wall clock once, then the boot clock; and
what an answer's Date says of the hub's.
"""

import email.utils
import threading
import time
from typing import Callable, Optional

Timer = Callable[[], float]  # seconds of some clock
MAX_DRIFT_MS = 500  # beyond it the wall clock was set, or has run away: follow it


def elapsed_s() -> float:
    """Seconds of the boot clock, which goes on through a suspend; of the monotonic one where there
    is none.
    """
    return time.monotonic() if _BOOT_CLOCK is None else time.clock_gettime(_BOOT_CLOCK)


_BOOT_CLOCK: Optional[int] = getattr(time, "CLOCK_BOOTTIME", None)


def is_recent(at_ms: Optional[int], now_ms: int, within_ms: int) -> bool:
    """Whether it was so lately: not what never was (None), nor what lies ahead of a clock that was
    set back.
    """
    return at_ms is not None and 0 <= now_ms - at_ms < within_ms


class Clock:
    """Milliseconds since the epoch; durations are the boot clock's. For several threads."""

    def __init__(self, *, wall_s: Timer = time.time, elapsed_s: Timer = elapsed_s) -> None:
        self._wall_s = wall_s
        self._elapsed_s = elapsed_s
        self._mutex = threading.Lock()
        self._offset_s = wall_s() - elapsed_s()
        self.steps = 0  # how often the wall clock was followed

    def now_ms(self) -> int:
        """The time now; it jumps only when the wall clock is more than MAX_DRIFT_MS away."""
        with self._mutex:
            elapsed_s = self._elapsed_s()
            offset_s = self._wall_s() - elapsed_s
            if abs(offset_s - self._offset_s) * 1000 > MAX_DRIFT_MS:
                self._offset_s = offset_s
                self.steps += 1
            return int((elapsed_s + self._offset_s) * 1000)


class HubClock:
    """The hub's clock as its last answer told it: its Date, and the boot clock since.

    The Date was written before it was read here, and its second has begun: the hub's clock is there
    or further, however slow the answer was.
    """

    def __init__(self, *, elapsed_s: Timer = elapsed_s) -> None:
        self._elapsed_s = elapsed_s
        self._ahead_s: Optional[float] = None  # of the boot clock

    def note(self, date: Optional[str]) -> None:
        """Reads the Date of an answer whose head came just now."""
        hub_s = date_s(date)
        if hub_s is not None:
            self._ahead_s = hub_s - self._elapsed_s()

    def earliest_ms(self) -> Optional[int]:
        """The least that the hub's clock shows now, in ms since the epoch; None before its first
        Date.
        """
        if self._ahead_s is None:
            return None
        return max(0, int((self._ahead_s + self._elapsed_s()) * 1000))


def date_s(date: Optional[str]) -> Optional[float]:
    """Seconds since the epoch of a header's date; None where it is none."""
    try:
        return email.utils.parsedate_to_datetime(date or "").timestamp()
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
