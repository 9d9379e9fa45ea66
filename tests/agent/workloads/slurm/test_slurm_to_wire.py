"""From Slurm's commands through the resolver to the batch: with its own thread, processes and a
controller that goes away.
"""

import time

import pytest

from agent import batch, wire
from agent.readings import ProcessReading
from agent.window import GPUWindow
from agent.workloads import Resolver
from agent.workloads.slurm.client import Slurm
from agent.workloads.slurm.command import Commands
from agent.workloads.slurm.hpc_files import HPCFiles
from tests.agent import fake_proc
from tests.agent.factories import gpu
from tests.agent.fake_slurm import FakeSlurm, job_2405

NOW = 1_793_700_000_000
GPUS = [
    gpu(f"GPU-{place}", index=place, bus_id=f"00000000:{0x10 + place:02X}:00.0", minor=place)
    for place in range(4)
]
SLUID = "s5K1KKYAYG5D00"


@pytest.fixture
def fake(tmp_path):
    fake = FakeSlurm(tmp_path / "bin")
    fake.node()
    return fake


@pytest.fixture
def resolver(fake, tmp_path):
    (tmp_path / "proc").mkdir()
    root = fake_proc.host(tmp_path / "proc")
    fake_proc.process(
        root, 71, cgroup="0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n"
    )
    fake_proc.process(
        root, 72, cgroup=f"0::/system.slice/slurmstepd.scope/{SLUID}/step_0/user/task_0\n"
    )
    fake_proc.process(root, 73, cgroup="0::/user.slice/user-1000.slice/session-3.scope\n")
    files = HPCFiles(str(tmp_path / "gpustat"), [])
    commands = Commands(fake.environment, folders=())
    books = Slurm(
        ["n01"],
        commands=commands,
        files=files,
        conf_folders=[],
        cgroup_root=str(tmp_path / "cgroup"),
    )
    resolver = Resolver(node="n01", schedulers=lambda: [books], proc_root=str(root))
    yield resolver
    for poller in resolver._pollers.values():
        poller.stop()


def settled(resolver, processes):
    """The resolver's answer, once its thread has asked for the first time."""
    deadline = time.monotonic() + 10
    while True:
        workload = resolver.resolve(processes, gpus=GPUS, start_ms=NOW - 10_000, end_ms=NOW)
        if workload.sources[0].seen_ms is not None or time.monotonic() > deadline:
            return workload
        time.sleep(0.02)


def sent(workload):
    """The batch as the hub decodes it."""
    windows = [GPUWindow(info.uuid, NOW - 10_000, 10_000, {}) for info in GPUS]
    closed = batch.ClosedWindow(NOW - 10_000, windows, workload)
    sender = batch.Sender("n01", "boot", NOW - 60_000, 10)
    return wire.decode(
        wire.encode(batch.build([closed], sender=sender, gpus=GPUS, agent={}, events=[]))
    )


def test_slurms_jobs_and_their_processes_meet_on_the_wire(fake, resolver):
    fake.job(job_2405(sluid=SLUID))

    found = sent(
        settled(
            resolver,
            {"GPU-0": [ProcessReading(71), ProcessReading(72)], "GPU-3": [ProcessReading(73)]},
        )
    )

    assert [job["key"] for job in found.jobs] == ["slurm/della/4711"]
    assert [
        (item["gpu"], item["job"], item["source"], item["share"]) for item in found.allocations
    ] == [
        (0, 0, "slurm", 1.0),
        (1, 0, "slurm", 1.0),
    ]
    assert [(item["pid"], item["job"]) for item in found.processes] == [
        (71, 0),
        (72, 0),
        (73, None),
    ]
    assert [(source["kind"], source["ok"]) for source in found.sources] == [
        ("slurm", True),
        ("process", True),
    ]


def test_nothing_of_the_jobs_secrets_is_on_the_wire(fake, resolver):
    fake.job(job_2405())

    found = wire.encode(sent(settled(resolver, {"GPU-0": [ProcessReading(71)]})))

    assert b"hunter2" not in found


def test_while_the_controller_is_away_nobody_is_said_to_hold_nothing(fake, resolver):
    fake.say("down", "")
    resolver.look(GPUS)
    deadline = time.monotonic() + 10
    while not fake.calls() and time.monotonic() < deadline:
        time.sleep(0.02)

    found = sent(
        resolver.resolve(
            {"GPU-0": [ProcessReading(71)]}, gpus=GPUS, start_ms=NOW - 10_000, end_ms=NOW
        )
    )

    assert ("slurm", False) in [(source["kind"], source["ok"]) for source in found.sources]
    assert found.allocations == []
