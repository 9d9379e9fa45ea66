"""Child processes that do not outlive their parent: started, watched, stopped."""

import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Spec:
    """How one child is started and stopped.

    Children of a lower `stage` stop first. One that is `once` is not started again after exit
    status 0.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    stop_signal: signal.Signals = signal.SIGTERM
    stop_s: float = 3.0
    stage: int = 1
    once: bool = False
    start_keywords: Mapping[str, Any] = field(default_factory=dict)
    folder: Path = Path("/")


def start(spec: Spec) -> "subprocess.Popen[bytes]":
    """The child, in a process group of its own; it gets `stop_signal` when we die, even by kill -9.

    Call it from the main thread only: the kernel ties that promise to the thread that forked.
    """
    return subprocess.Popen(
        spec.command,
        env=dict(spec.environment),
        cwd=spec.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=_dies_with_parent(spec.stop_signal, os.getpid()),  # noqa: PLW1509 - one prctl call, nothing that locks
        **spec.start_keywords,
    )


def _dies_with_parent(by: signal.Signals, parent: int) -> Callable[[], None]:
    def tie() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(by))
        if os.getppid() != parent:  # it died before the call
            os.kill(os.getpid(), by)

    return tie


def signal_group(process_id: int, by: signal.Signals) -> None:
    """Sends a signal to all of a child's group; none left is fine."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process_id, by)


def start_time(process_id: int) -> str | None:
    """The kernel's start time of a process, which tells it from a later one with the same number;
    None = gone.
    """
    try:
        stat = Path(f"/proc/{process_id}/stat").read_text()
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[19]


def group_members(group: int) -> list[int]:
    """The living processes of a group (zombies left out)."""
    pids = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            state, _, process_group = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
            if state != "Z" and int(process_group) == group:
                pids.append(int(entry.name))
    return pids
