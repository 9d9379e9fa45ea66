"""Keeps the stack's processes running, and stops them in order.

One main loop; a thread per child only copies its output. Children are started from
the main thread (see processes.start).
"""

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fleetwatch.stack import processes
from fleetwatch.stack.processes import Spec

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
STEADY_S = 60.0  # a child that lived so long starts its back-off anew
TICK_S = 0.2
STOP_BUDGET_S = 9.5


@dataclass(slots=True)
class Child:
    """A spec and its present life."""

    spec: Spec
    process: "subprocess.Popen[bytes]"
    started: float
    failures: int = 0
    start_again_at: float | None = None


class Supervisor:
    """Runs children until a signal asks it to stop."""

    def __init__(self, *, record: Path, quiet: frozenset[str] = frozenset()) -> None:
        self._children: list[Child] = []
        self._record = record
        self._quiet = quiet
        self._stop = threading.Event()

    def catch_signals(self) -> None:
        """SIGINT, SIGTERM and SIGHUP ask for an orderly stop."""
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, lambda *_: self._stop.set())

    @property
    def is_stopping(self) -> bool:
        return self._stop.is_set()

    def start(self, spec: Spec) -> Child:
        """Starts a child and keeps it running from now on."""
        child = Child(spec, self._launch(spec), time.monotonic())
        self._children.append(child)
        self._write_record()
        return child

    def run(self, *, until: Callable[[], bool] = lambda: False) -> None:
        """Returns when a signal asked to stop or `until()` is true; restarts what dies
        until then.
        """
        while not self._stop.wait(TICK_S) and not until():
            for child in self._children:
                self._look_after(child)

    def stop(self) -> None:
        """Stops all children, one stage after the other, within STOP_BUDGET_S in all."""
        deadline = time.monotonic() + STOP_BUDGET_S
        for stage in sorted({child.spec.stage for child in self._children}):
            later = [child.spec for child in self._children if child.spec.stage > stage]
            reserved = sum(
                max(spec.stop_s for spec in later if spec.stage == each)
                for each in {spec.stage for spec in later}
            )
            self._stop_stage(
                [child for child in self._children if child.spec.stage == stage],
                until=deadline - reserved,
            )
        self._record.unlink(missing_ok=True)

    def _stop_stage(self, children: list[Child], *, until: float) -> None:
        living = [child for child in children if child.process.poll() is None]
        for child in living:
            child.process.send_signal(child.spec.stop_signal)
        for child in living:
            limit = min(until - time.monotonic(), child.spec.stop_s)
            try:
                child.process.wait(max(0.05, limit))
            except subprocess.TimeoutExpired:
                say(
                    "fleetwatch",
                    f"{child.spec.name} did not stop in time and was killed; nothing is lost",
                )
        for child in children:
            processes.signal_group(child.process.pid, signal.SIGKILL)  # whatever it left behind
            child.process.wait()
            if child in self._children:
                self._children.remove(child)

    def _look_after(self, child: Child) -> None:
        now = time.monotonic()
        if child.start_again_at is not None:
            if now >= child.start_again_at:
                self._start_again(child, now)
            return
        status = child.process.poll()
        if status is None or (child.spec.once and status == 0):
            return
        processes.signal_group(child.process.pid, signal.SIGKILL)
        child.failures = 1 if now - child.started > STEADY_S else child.failures + 1
        pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** (child.failures - 1))
        child.start_again_at = now + pause
        say("fleetwatch", f"{child.spec.name} {_ended(status)}; starting it again in {pause:.0f} s")

    def _start_again(self, child: Child, now: float) -> None:
        child.process = self._launch(child.spec)
        child.started = now
        child.start_again_at = None
        self._write_record()

    def _launch(self, spec: Spec) -> "subprocess.Popen[bytes]":
        process = processes.start(spec)
        threading.Thread(target=self._copy, args=(spec.name, process), daemon=True).start()
        return process

    def _copy(self, name: str, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout is not None  # noqa: S101 - started with a pipe
        for line in process.stdout:
            text = line.decode("utf-8", "replace").rstrip()
            if text and name not in self._quiet:
                say(name, text)

    def _write_record(self) -> None:
        """What a later start must clean up if we are killed by -9.

        On a full disk the former record stays: children go on.
        """
        rows = [
            [child.process.pid, processes.start_time(child.process.pid)] for child in self._children
        ]
        partial = self._record.with_suffix(".partial")
        try:
            partial.write_text(json.dumps(rows))
            partial.replace(self._record)
        except OSError as error:
            say("fleetwatch", f"{self._record} can't be written: {error.strerror}")


def clean_up(record: Path, *, timeout_s: float = 10.0) -> int:
    """Ends what a killed supervisor left running; gives how many groups there were."""
    try:
        rows = json.loads(record.read_text())
    except (OSError, ValueError):
        return 0
    groups = [pid for pid, started in rows if _is_ours(pid, started)]
    deadline = time.monotonic() + timeout_s
    # they got their stop signal when their parent died
    while groups and time.monotonic() < deadline:
        time.sleep(0.1)
        groups = [group for group in groups if processes.group_members(group)]
    for group in groups:
        processes.signal_group(group, signal.SIGKILL)
    record.unlink(missing_ok=True)
    return len(rows)


def _is_ours(pid: int, started: str | None) -> bool:
    """The child itself still runs, or it is gone and its group has members (a group's number is not
    reused while it has).
    """
    now = processes.start_time(pid)
    return now == started if now is not None else bool(processes.group_members(pid))


def _ended(status: int) -> str:
    if status >= 0:
        return f"ended with exit status {status}"
    return f"was killed by {signal.Signals(-status).name}"


_LINE = threading.Lock()


def say(name: str, text: str) -> None:
    """One line of the common log: who, then what."""
    # a log that can't be written (a full disk, a closed terminal) stops nobody
    with _LINE, contextlib.suppress(OSError):
        sys.stdout.write(f"{name:<14} | {text}\n")
        sys.stdout.flush()
