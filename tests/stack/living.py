"""A living stack for tests: `manage.py up` in a process of its own, on a folder and port of its
own.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LAST_WORDS = "Ctrl-C stops all of it"
PASSWORD = "a-living-Passw0rd"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Living:
    """One stack; `log` is what it printed so far."""

    data: Path
    port: int
    process: "subprocess.Popen[bytes] | None" = None
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return (self.data.parent / "up.log").read_text(errors="replace")

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self, *arguments: str) -> None:
        """Returns when it said that it is ready."""
        (self.data.parent / "up.log").touch()
        already = self.log.count(LAST_WORDS)
        with (self.data.parent / "up.log").open("ab") as log:
            command = [
                sys.executable,
                "manage.py",
                "up",
                "--port",
                str(self.port),
                "--data",
                str(self.data),
                *arguments,
            ]
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=self.environment, stdout=log, stderr=log
            )
        self.wait_until(lambda: self.log.count(LAST_WORDS) > already, what="ready", seconds=300)

    def manage(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """A management command on this stack, found through FLEETWATCH_DATA."""
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def answers(self, path: str) -> bool:
        try:
            with urllib.request.urlopen(self.url + path, timeout=2) as response:
                return bool(response.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def wait_until(self, condition, *, what: str, seconds: float = 60) -> None:
        """Waits for other processes, which have no event to wait for."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline or (self.process and self.process.poll() is not None):
                raise AssertionError(f"not {what}; the log ends:\n{self.log[-3000:]}")
            time.sleep(0.05)

    def children(self, name: str) -> list[int]:
        """The main processes of this stack whose command line holds `name`."""
        assert self.process is not None
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == self.process.pid and name in (entry / "cmdline").read_text().replace(
                    "\0", " "
                ):
                    found.append(int(entry.name))
        return found

    def kill(self, name: str) -> None:
        """kill -9 of the main process named, once it lives."""
        self.wait_until(lambda: self.children(name), what=f"running {name}")
        os.kill(self.children(name)[0], signal.SIGKILL)

    def stop(self) -> float:
        """SIGTERM; gives how long it took. It must end with status 0."""
        assert self.process is not None
        began = time.monotonic()
        self.process.terminate()
        status = self.process.wait(15)
        assert status == 0, self.log[-3000:]
        return time.monotonic() - began

    def everything(self) -> list[str]:
        """The command lines of all processes that know this stack's folder."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            with contextlib.suppress(OSError):
                known = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                if str(self.data).encode() in known:
                    found.append((entry / "cmdline").read_text().replace("\0", " "))
        return found


@contextlib.contextmanager
def living_stack() -> Iterator[Living]:
    """A stack that is not started yet; at the end it is stopped and its folders are removed."""
    folder = Path(tempfile.mkdtemp(prefix="fleetwatch-up-", dir="/var/tmp"))
    folder.chmod(0o755)
    data = folder / "data"
    hidden = ("DATABASE_URL", "REDIS_URL", "SECRET_KEY")
    environment = {key: value for key, value in os.environ.items() if key not in hidden}
    environment |= {"FLEETWATCH_DATA": str(data), "FLEETWATCH_ADMIN_PASSWORD": PASSWORD}
    stack = Living(data=data, port=free_port(), environment=environment)
    try:
        yield stack
    finally:
        if stack.process and stack.is_running:
            stack.process.terminate()
            try:
                stack.process.wait(15)
            except subprocess.TimeoutExpired:
                stack.process.kill()
        for line in range(50):
            if not stack.everything() or line == 49:
                break
            time.sleep(0.1)
        shutil.rmtree(folder, ignore_errors=True)
