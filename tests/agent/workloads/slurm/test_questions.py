"""What Slurm is asked, how often, and what becomes of commands that fail."""

import time

import pytest

from agent.readings import SchedulerError
from agent.workloads.slurm import command
from agent.workloads.slurm.command import CommandError, Commands
from agent.workloads.slurm.job_books import LIST_MS
from agent.workloads.slurm.queue import PENDING_MS
from tests.agent.fake_slurm import GPUS, IDLE, NOW, job_2405, write_claim


def test_a_quiet_node_costs_one_small_question(fake, books):
    fake.job(job_2405())
    slurm = books()
    slurm.poll(GPUS, NOW)
    fake.calls()

    slurm.poll(GPUS, NOW + LIST_MS - 1)

    assert [call.partition(" tz=")[0] for call in fake.calls()] == ["scontrol -d -o show node n01"]


@pytest.mark.parametrize("change", ["used", "cgroup v1", "cgroup v2", "file", "time"])
def test_the_queue_is_read_again_when_something_changed(fake, books, tmp_path, change):
    fake.job(job_2405())
    slurm = books()
    slurm.poll(GPUS, NOW)
    fake.calls()
    if change == "used":
        fake.node(used="gpu:a100:3(IDX:0-2)")
    if change == "cgroup v1":
        (tmp_path / "cgroup" / "devices" / "slurm_n01" / "uid_1000" / "job_5").mkdir(parents=True)
    if change == "cgroup v2":
        (tmp_path / "cgroup" / "system.slice" / "n01_slurmstepd.scope" / "job_5").mkdir(
            parents=True
        )
    if change == "file":
        (tmp_path / "gpustat").mkdir()
        (tmp_path / "gpustat" / "2").write_text("4711 1000\n")

    slurm.poll(GPUS, NOW + (LIST_MS if change == "time" else 1))

    assert any(call.startswith("squeue -h -a -t all -w n01") for call in fake.calls())


def test_commands_run_in_utc_and_without_the_agents_own_environment(fake, books):
    fake.node(used=IDLE)
    books().poll(GPUS, NOW)

    assert all(call.endswith("tz=UTC secret=") for call in fake.calls())


def test_a_drained_node_says_why_and_a_good_one_that_it_is(fake, books):
    fake.node(used=IDLE)
    slurm = books()
    good = slurm.poll(GPUS, NOW)
    fake.node(used=IDLE, state="IDLE+DRAIN", reason="ECC errors")

    assert (good.drained, slurm.poll(GPUS, NOW + 1).drained) == ("", "drain: ECC errors")


def test_what_the_queue_waits_for_is_counted_and_kept_for_a_while(fake, books):
    fake.node(used=IDLE)
    lines = [
        f"{'Resources':<40}{'cpu=8,mem=1G,gres/gpu=4':<200}",
        f"{'Priority':<40}{'cpu=8,mem=1G,gres/gpu:a100=2':<200}",
        f"{'Dependency':<40}{'cpu=8,gres/gpu=64':<200}",
        f"{'JobHeldUser':<40}{'cpu=8,gres/gpu=64':<200}",
        f"{'Resources':<40}{'cpu=8,mem=1G':<200}",
    ]
    fake.say("pending", "\n".join(lines) + "\n")
    slurm = books()
    first = slurm.poll(GPUS, NOW).pending_gpus
    fake.say("pending", "")

    assert first == 6
    assert slurm.poll(GPUS, NOW + PENDING_MS - 1).pending_gpus == 6
    assert slurm.poll(GPUS, NOW + PENDING_MS).pending_gpus == 0


def test_a_queue_that_can_not_be_counted_is_not_empty(fake, books):
    fake.node(used=IDLE)
    fake.unsay("pending")

    assert books().poll(GPUS, NOW).pending_gpus is None


def test_gpus_in_use_by_jobs_that_are_hidden_are_not_free(books):
    with pytest.raises(
        SchedulerError, match="2 GPUs are in use and names no job: with PrivateData=jobs"
    ):
        books().poll(GPUS, NOW)


def test_a_controller_that_is_down_is_said_and_is_not_an_empty_node(fake, books):
    fake.say("down", "")

    with pytest.raises(SchedulerError, match="Unable to contact slurm controller"):
        books().poll(GPUS, NOW)


def test_a_command_that_hangs_is_ended(fake, books):
    fake.say("hangs", "")
    began = time.monotonic()

    with pytest.raises(SchedulerError, match="did not answer"):
        books(timeout_s=0.1).poll(GPUS, NOW)

    assert time.monotonic() - began < 2


def test_a_command_that_never_stops_talking_is_ended(fake, monkeypatch):
    monkeypatch.setattr(command, "MAX_BYTES", 100_000)
    fake.say("floods", "")

    with pytest.raises(CommandError, match="printed more than 100000 bytes"):
        Commands(fake.environment, folders=()).run("squeue")


def test_a_host_without_slurm_says_so(tmp_path):
    with pytest.raises(CommandError, match="squeue is not installed"):
        Commands({"PATH": str(tmp_path)}, folders=()).run("squeue")


def test_the_name_that_slurm_knows_is_found_and_kept(fake, books):
    fake.node(used=IDLE)
    slurm = books(nodes=["n01.cluster.local", "n01"])
    slurm.poll(GPUS, NOW)
    fake.calls()
    slurm.poll(GPUS, NOW + 1)

    assert [call.partition(" tz=")[0] for call in fake.calls()] == ["scontrol -d -o show node n01"]


def test_a_host_that_is_no_node_is_an_error(books):
    with pytest.raises(SchedulerError, match="no node called login or login1"):
        books(nodes=["login", "login1"]).poll(GPUS, NOW)


@pytest.mark.parametrize(
    "trace", ["cgroup v1", "cgroup v1, tracked only", "cgroup v2", "file", "file written anew"]
)
def test_a_job_that_came_shows_on_the_host_without_a_question(fake, books, tmp_path, trace):
    fake.job(job_2405())
    write_claim(tmp_path / "gpustat" / "0", "4711 1000\n", at_ms=NOW - 1000)
    slurm = books()
    slurm.poll(GPUS, NOW)
    fake.calls()
    before = slurm.has_changed()
    if trace == "cgroup v1":
        (tmp_path / "cgroup" / "devices" / "slurm_n01" / "uid_1000" / "job_5").mkdir(parents=True)
    if trace == "cgroup v2":
        (tmp_path / "cgroup" / "system.slice" / "n01_slurmstepd.scope" / "job_5").mkdir(
            parents=True
        )
    if trace == "cgroup v1, tracked only":
        (tmp_path / "cgroup" / "freezer" / "slurm" / "uid_1000" / "job_5").mkdir(parents=True)
    if trace == "file":
        write_claim(tmp_path / "gpustat" / "1", "5 1000\n")
    if trace == "file written anew":
        write_claim(tmp_path / "gpustat" / "0", "5 1000\n")

    assert (before, slurm.has_changed()) == (False, True)
    assert fake.calls() == []


@pytest.mark.parametrize(
    "answer", ["4711|4711|RUNNING", "error: squeue is confused", "4711|4711;reboot|RUNNING|x"]
)
def test_a_list_that_is_not_understood_is_an_error(fake, books, answer):
    fake.say("list", answer + "\n")

    with pytest.raises(SchedulerError, match="not understood"):
        books().poll(GPUS, NOW)


def test_a_job_that_is_forgotten_between_two_questions_is_left_out(fake, books):
    fake.node(used=IDLE)
    fake.say("list", "4711|4711|RUNNING|2026-11-03T09:00:00\n")

    assert list(books().poll(GPUS, NOW).jobs) == []
