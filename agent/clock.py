"""The time of day that does not jump within a window: the wall clock once, then the monotonic one."""

import time
from typing import Callable

MAX_DRIFT_MS = 500  # beyond it the wall clock was set, or has run away: follow it


class Clock:
    """Milliseconds since the epoch; durations are the monotonic clock's."""

    def __init__(self, *, wall_s: Callable[[], float] = time.time, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._wall_s, self._monotonic_s = wall_s, monotonic_s
        self._offset_s = wall_s() - monotonic_s()

    def now_ms(self) -> int:
        """The time now; it jumps only when the wall clock is more than MAX_DRIFT_MS away."""
        elapsed_s = self._monotonic_s()
        wall_s = self._wall_s()
        if abs(wall_s - elapsed_s - self._offset_s) * 1000 > MAX_DRIFT_MS:
            self._offset_s = wall_s - elapsed_s
        return int((elapsed_s + self._offset_s) * 1000)
