"""One nvidia-smi that prints a CSV for ever, and what is known of its health.

Never more than a few of them hang at once.
"""

import logging
import os
import signal
import subprocess
import threading
import time
from typing import IO, Callable, List, Optional, Sequence

from agent import procfs
from agent.readings import SourceError
from agent.sources.nvidia_smi.smi_text import Row, Table

log = logging.getLogger("agent.nvidia_smi")

KILL_S = 2.0  # a process that is stuck in the driver takes no signal
MAX_UNDEAD = 3
MAX_LINE = 65_536
# killed, and not yet gone: each holds a place in the driver
_undead: "List[subprocess.Popen[str]]" = []


class Stream:
    """A child that prints one CSV for ever, read by a thread so that a hang is noticed here and not
    suffered.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        first: str,
        on_row: Callable[[Row], None],
    ) -> None:
        self.heard_at = self.started_at = time.monotonic()
        self.said: List[str] = []  # what was no row: the reason, when it ends
        self.has_header = False
        self._first = first
        self._on_row = on_row
        self._pulse: Optional[int] = None
        self._pulse_at = self.started_at
        self._child = _start(command)
        self._reader = threading.Thread(target=self._read, args=(self._child.stdout,), daemon=True)
        self._reader.start()

    @property
    def is_alive(self) -> bool:
        """Until its last word was read."""
        return self._reader.is_alive()

    @property
    def silence_s(self) -> float:
        """Seconds since it printed anything."""
        return time.monotonic() - self.heard_at

    @property
    def stillness_s(self) -> float:
        """Seconds since it was last seen to do anything, of a child that prints nothing where there
        is nothing to tell.

        A child that waits for its next round sleeps and wakes, which the kernel counts; one that
        hangs does not.
        """
        pulse = _wakes(self._child.pid)
        if pulse is None or pulse != self._pulse:
            self._pulse = pulse
            self._pulse_at = time.monotonic()
        return time.monotonic() - max(self._pulse_at, self.heard_at)

    def close(self) -> None:
        """Ends the child and whatever it started; one that is stuck in the driver is left to the
        kernel, and counted.
        """
        try:
            os.killpg(self._child.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            self._child.kill()
        try:
            self._child.wait(timeout=KILL_S)
        except subprocess.TimeoutExpired:
            _undead.append(self._child)
            log.warning("nvidia-smi does not end, it hangs in the driver pid=%d", self._child.pid)

    def _read(self, output: IO[str]) -> None:
        columns: Optional[Table] = None
        with output:
            for line in iter(lambda: output.readline(MAX_LINE), ""):
                self.heard_at = time.monotonic()
                row = None if columns is None else columns.row(line)
                if columns is None and line.startswith(self._first + ","):
                    columns = Table(line)
                    self.has_header = True
                elif row is not None:
                    self._on_row(row)
                elif line.strip():
                    self.said = [*self.said, line.strip()[:300]][-5:]


def _start(command: Sequence[str]) -> "subprocess.Popen[str]":
    """In a process group of its own, so that all of it can be killed. Raises SourceError."""
    _undead[:] = [child for child in _undead if child.poll() is None]
    if len(_undead) >= MAX_UNDEAD:
        raise SourceError(
            "%d nvidia-smi hang in the driver and can't be killed: this node needs a reboot"
            % len(_undead)
        )
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise SourceError(
            "%s can't be started: %s" % (command[0], error.strerror or error)
        ) from error


def _wakes(pid: int) -> Optional[int]:
    """How often the process has gone to sleep by itself; None where /proc does not say."""
    return procfs.numbers(procfs.read("/proc", pid, "status")).get("voluntary_ctxt_switches")
