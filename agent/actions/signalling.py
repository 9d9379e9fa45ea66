"""SIGTERM to processes that are still those that were seen on a GPU: pids are used again."""

import os
import re
import signal
import sys
from typing import Optional, Sequence

from agent.readings import Process
from agent.workloads.proc import read_stat

PROC = "/proc"  # this process's own: signals reach what it shows, wherever the host's is mounted
INIT = 1
GPU_FILE = re.compile(r"/dev/nvidia\d+")


def ask_to_end(processes: Sequence[Process]) -> int:
    """How many of them were sent SIGTERM: those that are who they were and hold a GPU still.

    Raises OSError where that may not be done.
    """
    by_pid = {process.pid: process for process in processes}
    return sum(_end(by_pid[pid]) for pid in sorted(by_pid))


def _end(process: Process) -> bool:
    try:
        descriptor = _pidfd(process.pid)
        try:
            if not _is_still(process):
                return False
            _send(process.pid, descriptor)
        finally:
            if descriptor is not None:
                os.close(descriptor)
    except (ProcessLookupError, FileNotFoundError):  # it is gone
        return False
    return True


def _pidfd(pid: int) -> Optional[int]:
    """What means this process and never a later one of its pid; None before Python 3.9 and Linux
    5.3, where a moment lies between the look at it and the signal.
    """
    if sys.version_info < (3, 9):
        return None
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except OSError:
        return None


def _send(pid: int, descriptor: Optional[int]) -> None:
    if descriptor is None or sys.version_info < (3, 9):
        os.kill(pid, signal.SIGTERM)
    else:
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)


def _is_still(process: Process) -> bool:
    """Whether its pid is that process's still (within one boot none other has its start too), and
    has a GPU open. Kernel threads have nothing open.
    """
    if process.pid <= INIT or process.pid == os.getpid():
        return False
    stat = read_stat(PROC, process.pid)
    is_same = stat is not None and stat.start_ticks == process.start_ticks
    return is_same and _has_gpu_open(process.pid)


def _has_gpu_open(pid: int) -> bool:
    """Raises OSError where it may not be known."""
    folder = "%s/%d/fd" % (PROC, pid)
    return any(GPU_FILE.fullmatch(_target(folder, name)) for name in os.listdir(folder))


def _target(folder: str, name: str) -> str:
    try:
        return os.readlink("%s/%s" % (folder, name))
    except FileNotFoundError:  # it was closed meanwhile
        return ""
