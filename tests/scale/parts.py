"""Servers that a test starts, kills and starts again, each in a folder and at an address of its
own.
"""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.debian import PATH

PATIENCE_S = 120


@dataclass
class Part:
    """One server; `kills` names files with the ids of processes that do not die with it."""

    name: str
    command: Sequence[str]
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    keywords: Mapping[str, Any] = field(default_factory=dict)  # of subprocess: whose it is
    kills: Sequence[Path] = ()
    process: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                cwd=self.folder if self.keywords else None,
                env={"PATH": PATH, **self.environment},
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                **self.keywords,
            )

    def kill(self) -> None:
        """kill -9 of all its processes: the host is gone."""
        assert self.process is not None
        for path in self.kills:
            kill_by_file(path)
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    @property
    def log(self) -> str:
        return (self.folder / f"{self.name}.log").read_text(errors="replace")


def kill_by_file(path: Path) -> None:
    """kill -9 of the process whose id is the file's first line; none where it is not there."""
    try:
        os.kill(int(path.read_text().split()[0]), signal.SIGKILL)
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return


def listens(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), timeout=1):
            return True
    except OSError:
        return False


def wait_until(condition: Callable[[], bool], what: str, *, seconds: float = PATIENCE_S) -> float:
    """Seconds until it was so. Raises AssertionError after too many of them."""
    began = time.monotonic()
    while not condition():
        waited = time.monotonic() - began
        assert waited < seconds, f"not {what} within {seconds:g} s"
        time.sleep(0.1)
    return time.monotonic() - began
