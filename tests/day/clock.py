"""Another time for the processes that are started with it (moved_clock.c).

What they wait for by the monotonic clock passes as ever; only what time they think it is moves.
"""

import mmap
import struct
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

SECOND_NS = 1_000_000_000
SOURCE = Path(__file__).with_name("moved_clock.c")


class Clock:
    """A clock that is put somewhere and goes on from there, for all of them alike."""

    def __init__(self, folder: Path, *, at: datetime) -> None:
        """Raises CalledProcessError where there is no C compiler that makes it."""
        library = folder / "moved_clock.so"
        command = ["cc", "-shared", "-fPIC", "-O2", "-o", str(library), str(SOURCE)]
        subprocess.run(command, check=True, capture_output=True)
        offset = folder / "clock-offset"
        offset.write_bytes(bytes(8))
        with offset.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), 8)
        self.environment = {"LD_PRELOAD": str(library), "MOVED_CLOCK": str(offset), "TZ": "UTC"}
        self._offset_s = 0.0
        self._put(at)

    def now(self) -> datetime:
        """What time it is for those processes."""
        return datetime.fromtimestamp(time.time() + self._offset_s, tz=UTC)

    def move_to(self, at: datetime) -> None:
        """It is that time at once. Raises ValueError for what is over."""
        if at < self.now():
            raise ValueError(f"it is {self.now()}: {at} is over")
        self._put(at)

    def _put(self, at: datetime) -> None:
        self._offset_s = at.timestamp() - time.time()
        self._shared[:] = struct.pack("=q", int(self._offset_s * SECOND_NS))
