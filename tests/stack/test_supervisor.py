"""Real processes: what the supervisor starts it keeps running, and nothing outlives it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fleetwatch.stack import processes
from fleetwatch.stack.supervisor import clean_up

PROGRAM = """
import sys
from pathlib import Path
from fleetwatch.stack.processes import Spec
from fleetwatch.stack.supervisor import Supervisor

supervisor = Supervisor(record=Path(sys.argv[1]))
supervisor.catch_signals()
for number, text in enumerate(sys.argv[2:]):
    supervisor.start(Spec(f"child{number}", ("/bin/sh", "-c", text), {"PATH": "/bin:/usr/bin"}, stop_s=1.0))
supervisor.run()
supervisor.stop()
"""


@pytest.fixture
def supervise(tmp_path: Path) -> "Iterator[Callable[..., subprocess.Popen[str]]]":
    started: list[subprocess.Popen[str]] = []

    def start(*children: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-u", "-c", PROGRAM, str(tmp_path / "processes.json"), *children]
        started.append(
            subprocess.Popen(
                command, stdout=subprocess.PIPE, text=True, cwd=processes.Path(__file__).parents[2]
            )
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


def wait_for(condition: Callable[[], object], *, seconds: float = 10) -> bool:
    """Whether it came true in time: other processes have no event to wait for."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def lines_until(process: "subprocess.Popen[str]", *texts: str) -> str:
    """What it says until each of the texts was in it, in whatever order."""
    assert process.stdout is not None
    seen = ""
    while not all(text in seen for text in texts):
        line = process.stdout.readline()
        if not line:
            break
        seen += line
    return seen


def child_pid(process: "subprocess.Popen[str]", name: str = "child0") -> int:
    return int(lines_until(process, f"{name}         | pid ").split("| pid ")[-1])


SAYS_PID = "echo pid $$; exec sleep 60"


def is_gone(pid: int) -> bool:
    return not processes.group_members(pid)


def test_a_child_that_is_killed_is_started_again_and_that_is_said(supervise):
    parent = supervise(SAYS_PID)
    first = child_pid(parent)

    os.kill(first, signal.SIGKILL)
    said = lines_until(parent, "child0         | pid ")
    second = int(said.split("| pid ")[-1])

    assert "child0 was killed by SIGKILL; starting it again in 1 s" in said
    assert second != first


def test_a_record_that_can_not_be_written_as_on_a_full_disk_stops_nobody(supervise, tmp_path):
    parent = supervise(SAYS_PID)
    first = child_pid(parent)
    # the child may speak before the record of its start is in place
    assert wait_for((tmp_path / "processes.json").exists)
    (tmp_path / "processes.partial").mkdir()

    os.kill(first, signal.SIGKILL)
    output = lines_until(parent, "| pid ", "can't be written")

    assert f"| pid {first}\n" not in output
    assert "processes.json can't be written" in output
    assert parent.poll() is None


def test_sigterm_stops_every_child_and_what_the_child_started(supervise):
    parent = supervise("sleep 60 & echo pid $$; wait")
    child = child_pid(parent)

    parent.terminate()

    assert parent.wait(10) == 0
    assert wait_for(lambda: is_gone(child))


def test_a_child_that_ignores_its_stop_signal_is_killed(supervise):
    parent = supervise("trap '' TERM; echo pid $$; while true; do sleep 1; done")
    child = child_pid(parent)

    parent.terminate()
    said = lines_until(parent, "was killed; nothing is lost")

    assert "child0 did not stop in time" in said
    assert parent.wait(10) == 0
    assert wait_for(lambda: is_gone(child))


def test_children_end_when_the_supervisor_is_killed_by_kill_9(supervise):
    parent = supervise(SAYS_PID)
    child = child_pid(parent)

    parent.kill()

    assert wait_for(lambda: is_gone(child))


def test_what_a_killed_run_left_behind_is_ended_by_the_next(supervise, tmp_path):
    parent = supervise("trap '' TERM; sleep 60 & echo pid $$; while true; do sleep 1; done")
    child = child_pid(parent)
    assert wait_for((tmp_path / "processes.json").exists)
    parent.kill()
    parent.wait()
    assert not is_gone(child)

    found = clean_up(tmp_path / "processes.json", timeout_s=0.2)

    assert found == 1
    assert wait_for(lambda: is_gone(child))
    assert not (tmp_path / "processes.json").exists()


def test_a_process_number_that_was_reused_is_left_alone(tmp_path):
    record = tmp_path / "processes.json"
    record.write_text(f'[[{os.getpid()}, "1"]]')

    clean_up(record, timeout_s=0.1)

    assert processes.start_time(os.getpid()) is not None
