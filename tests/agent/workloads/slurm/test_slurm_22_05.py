"""A node's day as a real Slurm 22.05 told it (tests/agent/slurm_22_05)."""

import pytest

from agent.readings import Allocation, GPUInfo
from agent.workloads.slurm.client import Slurm
from agent.workloads.slurm.command import Commands
from agent.workloads.slurm.hpc_files import HPCFiles
from tests.agent.fake_slurm import FakeSlurm

AT_MS = 1_795_371_180_000  # 2026-11-22 18:13:00 UTC
GPUS = [
    GPUInfo(
        f"GPU-{place}", index=place, bus_id=f"00000000:{0x10 + place:02X}:00.0", minor=3 - place
    )
    for place in range(4)
]
HOSTILE = "x|1+1|JobState=FAILED StartTime=2020-01-01T00:00:00"


@pytest.fixture
def fake(tmp_path):
    return FakeSlurm(tmp_path / "bin")


@pytest.fixture
def at(fake, tmp_path):
    """What the books say at a recorded moment, asked so many seconds after 18:13."""
    (tmp_path / "gres.conf").write_text("NodeName=gpu01 Name=gpu Type=h100 File=/dev/nvidia[0-3]\n")
    slurm = Slurm(
        ["gpu01"],
        commands=Commands(fake.environment, folders=()),
        files=HPCFiles(str(tmp_path / "gpustat"), []),
        conf_folders=[str(tmp_path)],
        cgroup_root=str(tmp_path / "cgroup"),
    )

    def ask(moment, seconds):
        fake.forget_all()
        fake.play(moment)
        return slurm.poll(GPUS, AT_MS + seconds * 1000)

    return ask


def spans(holdings):
    """(job, GPU, start, end) in seconds after 18:13."""
    return [
        (item.job_key.rpartition("/")[2], item.uuid, *map(seconds, (item.start_ms, item.end_ms)))
        for item in holdings.allocations
    ]


def seconds(time_ms):
    return None if time_ms is None else (time_ms - AT_MS) / 1000


def test_a_component_of_a_heterogeneous_job_is_read_by_its_own_line_whatever_its_name_says(at):
    holdings = at("running", 8)

    assert spans(holdings) == [
        ("1", "GPU-3", 3, None),
        ("3", "GPU-2", 4, None),
        ("3", "GPU-1", 4, None),
    ]
    assert [(job.id, job.name, job.user, job.account, job.state) for job in holdings.jobs] == [
        ("1", HOSTILE, "ann", "chem", "RUNNING"),
        ("3", "train", "bob", "physics", "RUNNING"),
    ]
    assert holdings.doubt == ""


def test_a_requeued_jobs_run_ends_when_it_was_seen_to_complete_and_the_job_waits(at):
    at("running", 8)
    completing = at("requeue-completing", 9)
    waiting = at("requeued", 12)

    assert ("3", "GPU-2", 4, 9) in spans(completing)
    assert ("3", "GPU-1", 4, 9) in spans(waiting)
    assert {job.id: (job.state, job.end_ms, job.restarts) for job in waiting.jobs}["3"] == (
        "REQUEUED",
        None,
        1,
    )
    assert {job.id: job.state for job in completing.jobs}["1"] == "RUNNING"


def test_a_completing_jobs_end_is_the_one_that_slurm_tells_and_its_gpus_are_those_that_it_held(at):
    at("running", 8)
    over = at("hetero-over", 19)

    assert ("1", "GPU-3", 3, 18) in spans(over)
    assert ("COMPLETING", 18) in [(job.state, seconds(job.end_ms)) for job in over.jobs]


def test_a_cancelled_job_is_told_with_its_end(at):
    at("running", 8)
    at("cancel-completing", 27)
    cancelled = at("cancelled", 31)

    outcome = {job.id: (job.state, seconds(job.end_ms)) for job in cancelled.jobs}
    assert outcome["1"] == ("COMPLETED", 18)
    assert (
        Allocation("GPU-3", "slurm/della/1", "slurm", AT_MS + 3000, AT_MS + 18000, 1.0)
        in cancelled.allocations
    )
