import os
import pwd
from pathlib import Path

import pytest

from agent.workloads.cgroup import Owner
from agent.workloads.proc import IDENTITY_S, Proc
from tests.agent import fake_proc

SESSION = "0::/user.slice/user-1000.slice/session-3.scope\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return fake_proc.host(tmp_path)


class Watch:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.s = 1000.0

    def __call__(self) -> float:
        return self.s


def test_a_process_is_known_by_boot_pid_and_start(root):
    fake_proc.process(root, 4711, name="python (a) b", start_ticks=100 * os.sysconf("SC_CLK_TCK"))

    facts = Proc(str(root)).read([4711])[4711]

    assert (facts.name, facts.state, facts.started_ms, facts.user) == (
        "python (a) b",
        "S",
        1_794_000_100_000,
        "root",
    )


def test_a_user_that_this_host_does_not_know_is_his_number(root):
    fake_proc.process(root, 4711, uid=3_999_123)

    assert Proc(str(root)).read([4711])[4711].user == "3999123"


def test_the_hosts_users_are_named_by_its_own_file_where_the_agent_lives_in_a_container(root):
    fake_proc.process(root, 4711, uid=3_999_123)
    (root / "1/root/etc").mkdir(parents=True)
    (root / "1/root/etc/passwd").write_text(
        "root:x:0:0::/root:/bin/sh\nbroken\nann:x:3999123:100::/home/ann:/bin/sh\n"
    )

    assert Proc(str(root)).read([4711])[4711].user == "ann"


def test_what_a_user_runs_as_root_is_the_users(root):
    fake_proc.process(root, 4711, uid=0, cgroup=SESSION)

    assert Proc(str(root)).read([4711])[4711].user == "1000"


def test_this_very_process_is_read_from_the_real_table():
    facts = Proc().read([os.getpid()])[os.getpid()]

    assert facts.user == pwd.getpwuid(os.getuid()).pw_name
    assert facts.state == "R"


def test_a_process_that_is_gone_or_hidden_is_none(root):
    assert Proc(str(root)).read([99]) == {}


@pytest.mark.parametrize(
    "text", ["", "4711", "4711 (python", "4711 (python) S 1 2", "4711 (python) S " + "x " * 30]
)
def test_a_line_that_is_cut_is_no_process(root, text):
    fake_proc.process(root, 4711)
    (root / "4711/stat").write_text(text)

    assert Proc(str(root)).read([4711]) == {}


@pytest.mark.parametrize(
    ("age_s", "job"), [(IDENTITY_S - 1, None), (IDENTITY_S, Owner("slurm", "4"))]
)
def test_a_process_that_a_job_adopts_is_seen_within_a_minute(root, age_s, job):
    watch = Watch()
    proc = Proc(str(root), clock_s=watch)
    fake_proc.process(root, 4711, cgroup="0::/")
    proc.read([4711])
    fake_proc.process(root, 4711, cgroup="0::/system.slice/slurmstepd.scope/job_4/step_extern")
    watch.s += age_s

    assert proc.read([4711])[4711].owner == job


def test_a_pid_that_is_used_again_is_another_process(root):
    proc = Proc(str(root))
    fake_proc.process(root, 4711, uid=0, environment={"WANDB_RUN_ID": "first"})
    proc.read([4711])
    fake_proc.process(
        root, 4711, uid=7_777, start_ticks=101, environment={"WANDB_RUN_ID": "second"}
    )

    facts = proc.read([4711])[4711]

    assert (facts.user, facts.environment["WANDB_RUN_ID"]) == ("7777", "second")


def test_state_and_name_are_those_of_now(root):
    proc = Proc(str(root))
    fake_proc.process(root, 4711)
    proc.read([4711])
    fake_proc.process(root, 4711, state="D", name="VLLM::EngineCor")

    facts = proc.read([4711])[4711]

    assert (facts.state, facts.name) == ("D", "VLLM::EngineCor")


def test_what_left_the_gpu_is_forgotten(root):
    proc = Proc(str(root))
    fake_proc.process(root, 4711)
    fake_proc.process(root, 4712)
    proc.read([4711, 4712])

    kept = proc.read([4711])[4711]

    assert list(proc._facts) == [kept.identity]
