"""One line a minute of what came in: a line per batch would be most of the log and say nothing."""

import threading
import time
from collections import Counter

import structlog

EVERY_S = 60.0

log = structlog.get_logger(__name__)


class Tally:
    """Counts of this process, written and begun anew by the first event after a minute."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._began = time.monotonic()

    def count(self, **more: int) -> None:
        """Adds to the counts."""
        with self._guard:
            self._counts.update(more)
            elapsed_s = time.monotonic() - self._began
            if elapsed_s < EVERY_S:
                return
            counts = self._counts
            self._counts = Counter()
            self._began = time.monotonic()
        log.info("batches received", seconds=round(elapsed_s), **counts)


received = Tally()
