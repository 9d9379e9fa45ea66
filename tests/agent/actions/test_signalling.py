"""Who is sent SIGTERM: real processes, and a /proc that says whether they are who was seen."""

import os
import signal
import subprocess

import pytest

from agent.actions import signalling
from agent.actions.signalling import ask_to_end
from agent.readings import Process
from tests.agent import fake_proc

SEEN = 4_242  # ticks since boot, of the process that was seen on the GPU


@pytest.fixture
def root(tmp_path, monkeypatch):
    """What stands for /proc: it knows only who is put into it."""
    monkeypatch.setattr(signalling, "PROC", str(tmp_path))
    return tmp_path


@pytest.fixture
def child():
    """A process that does nothing until it is asked to end."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def listed(root, pid: int, *, start_ticks: int = SEEN, opened: tuple[str, ...]) -> None:
    fake_proc.process(root, pid, start_ticks=start_ticks)
    (root / str(pid) / "fd").mkdir()
    for number, path in enumerate(opened):
        (root / str(pid) / "fd" / str(number)).symlink_to(path)


def seen(pid: int, start_ticks: int | None = SEEN) -> Process:
    return Process("GPU-a", pid, job_key="process/della/7", start_ticks=start_ticks)


@pytest.mark.parametrize("has_pidfd", [True, False])
def test_a_process_that_is_who_was_seen_and_holds_a_gpu_is_asked_to_end(
    root, child, monkeypatch, has_pidfd
):
    if not has_pidfd:  # Python 3.8, or a kernel before 5.3
        monkeypatch.setattr(signalling, "_pidfd", lambda _: None)
    listed(root, child.pid, opened=("/dev/null", "/dev/nvidiactl", "/dev/nvidia3"))

    # a process is listed once for each of its GPUs, and asked once
    assert ask_to_end([seen(child.pid), seen(child.pid)]) == 1
    assert child.wait(10) == -signal.SIGTERM


@pytest.mark.parametrize("start_ticks", [SEEN - 1, SEEN + 1, 0])
def test_who_has_the_pid_of_another_that_is_gone_is_left_alone(root, child, start_ticks):
    listed(root, child.pid, start_ticks=start_ticks, opened=("/dev/nvidia3",))

    assert ask_to_end([seen(child.pid)]) == 0
    assert child.poll() is None


def test_whose_start_nobody_saw_is_left_alone(root, child):
    listed(root, child.pid, opened=("/dev/nvidia3",))

    assert ask_to_end([seen(child.pid, start_ticks=None)]) == 0
    assert child.poll() is None


@pytest.mark.parametrize(
    "opened", [(), ("/dev/null",), ("/dev/nvidiactl",), ("/dev/nvidia-uvm",), ("/tmp/nvidia3",)]
)
def test_who_left_the_gpu_is_left_alone(root, child, opened):
    listed(root, child.pid, opened=opened)  # a kernel thread has nothing open

    assert ask_to_end([seen(child.pid)]) == 0
    assert child.poll() is None


def test_whose_files_may_not_be_read_is_left_alone(root, child, monkeypatch):
    def denied(_):
        raise PermissionError(13, "Permission denied")

    listed(root, child.pid, opened=("/dev/nvidia3",))
    monkeypatch.setattr("os.listdir", denied)

    with pytest.raises(PermissionError):
        ask_to_end([seen(child.pid)])
    assert child.poll() is None


@pytest.mark.parametrize("pid", [-1, 0, 1])
def test_no_group_of_processes_and_not_init_is_asked(root, monkeypatch, pid):
    sent = []
    monkeypatch.setattr(signalling, "_send", lambda pid, _: sent.append(pid))
    listed(root, pid, opened=("/dev/nvidia3",))

    assert ask_to_end([seen(pid)]) == 0
    assert sent == []


def test_the_agent_does_not_end_itself(root):
    listed(root, os.getpid(), opened=("/dev/nvidia3",))

    assert ask_to_end([seen(os.getpid())]) == 0


def test_who_is_gone_is_not_counted_and_the_others_are_asked(root, child):
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    listed(root, gone.pid, opened=("/dev/nvidia3",))  # it went between the look and the signal
    listed(root, child.pid, opened=("/dev/nvidia3",))

    assert ask_to_end([seen(gone.pid), seen(child.pid)]) == 1
    assert child.wait(10) == -signal.SIGTERM
