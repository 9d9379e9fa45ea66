"""Slurm's own commands: found, run without a shell, ended when they take too long or say
too much.
"""

import contextlib
import os
import selectors
import signal
import subprocess
import time
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from agent.readings import SchedulerError
from agent.workloads.slurm.places import FOLDERS

TIMEOUT_S = 12.0  # Slurm's clients wait MessageTimeout (10 s) for a controller that does not answer
MAX_BYTES = 2 * 1024 * 1024
MAX_TROUBLE = 200  # characters of what a command complained
_KEPT = ("SLURM_CONF", "LD_LIBRARY_PATH")


class CommandError(SchedulerError):
    """A command ended badly; `output` is what it said on standard error."""

    def __init__(self, text: str, output: str = "") -> None:
        super().__init__(text)
        self.output = output


class Commands:
    """squeue, scontrol and sacct of this host."""

    def __init__(
        self,
        environment: Mapping[str, str] = os.environ,
        *,
        folders: Sequence[str] = FOLDERS,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._folders = [
            folder for folder in environment.get("PATH", "").split(os.pathsep) if folder
        ] + list(folders)
        # In UTC the text of a time says which one it is; a site's own format would not be
        # understood.
        self._environment = {
            **{name: environment[name] for name in _KEPT if environment.get(name)},
            "PATH": os.pathsep.join(self._folders),
            "LC_ALL": "C",
            "TZ": "UTC",
            "SLURM_TIME_FORMAT": "standard",
        }
        self._timeout_s = timeout_s

    def path(self, name: str) -> Optional[str]:
        """The command's file; None where this host has none."""
        paths = (os.path.join(folder, name) for folder in self._folders)
        return next(
            (path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), None
        )

    def run(self, name: str, *arguments: str) -> str:
        """What the command printed.

        Raises CommandError: no such command, a bad end, too slow, too much.
        """
        try:
            output, trouble, status = self._ended(name, arguments)
        except subprocess.TimeoutExpired as error:
            raise CommandError("%s does not end" % name) from error
        if status != 0:
            complaint = " ".join(trouble.split())[:MAX_TROUBLE]
            raise CommandError(
                "%s ended with status %d: %s" % (name, status, complaint or "it said nothing"),
                complaint,
            )
        return output

    def _ended(self, name: str, arguments: Sequence[str]) -> Tuple[str, str, int]:
        """Standard output and error, and the status. Raises CommandError and TimeoutExpired."""
        path = self.path(name)
        if path is None:
            raise CommandError("%s is not installed on this host" % name)
        try:
            process = subprocess.Popen(
                [path, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environment,
                start_new_session=True,
            )
        except OSError as error:
            raise CommandError("%s can't be started: %s" % (name, error.strerror)) from error
        with process:
            try:
                output, trouble = _read(name, process, self._timeout_s)
                return output, trouble, process.wait(timeout=1.0)
            finally:
                if process.poll() is None:  # with what it started
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)


def _read(name: str, process: "subprocess.Popen[bytes]", timeout_s: float) -> List[str]:
    """Standard output and error until both end. Raises CommandError."""
    deadline = time.monotonic() + timeout_s
    streams = (process.stdout, process.stderr)
    read = {stream.fileno(): b"" for stream in streams if stream is not None}
    with selectors.DefaultSelector() as waiting:
        for descriptor in read:
            waiting.register(descriptor, selectors.EVENT_READ)
        while waiting.get_map():
            ready = waiting.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise CommandError("%s did not answer within %d s" % (name, timeout_s))
            for key, _ in ready:
                _read_some(key.fd, read, waiting)
            if sum(map(len, read.values())) > MAX_BYTES:
                raise CommandError("%s printed more than %d bytes" % (name, MAX_BYTES))
    return [text.decode("utf-8", "replace") for text in read.values()]


def _read_some(descriptor: int, read: Dict[int, bytes], waiting: selectors.BaseSelector) -> None:
    part = os.read(descriptor, 65536)
    read[descriptor] += part
    if not part:
        waiting.unregister(descriptor)
