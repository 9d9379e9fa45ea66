"""From Slurm's own commands and a process's control group to the encoded batch, through the agent's
real parts.
"""

import json
import time

import pytest

from agent import batch, wire
from agent.readings import GPUInfo, ProcessReading
from agent.window import GPUWindow
from agent.workloads import Resolver
from agent.workloads.slurm.client import Slurm
from agent.workloads.slurm.command import Commands
from agent.workloads.slurm.hpc_files import HPCFiles
from tests.agent import fake_proc
from tests.agent.fake_slurm import FakeSlurm, job_2405

GPUS = [
    GPUInfo(f"GPU-{place}", index=place, bus_id=f"00000000:{0x10 + place:02X}:00.0", minor=place)
    for place in range(4)
]
NOW = 1_793_700_000_000
PATIENCE_S = 10.0


@pytest.fixture
def node(tmp_path):
    """A node of the cluster della: job 4711 holds GPU 0 and 1 and has a process on GPU 0; somebody
    else's is on GPU 3.
    """
    slurm = FakeSlurm(tmp_path / "bin")
    slurm.node()
    slurm.job(job_2405())
    root = fake_proc.host(tmp_path / "proc")
    fake_proc.process(
        root, 100, cgroup="0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n"
    )
    fake_proc.process(
        root, 200, cgroup="0::/user.slice/user-1000.slice/session-3.scope\n", uid=1000
    )
    files = HPCFiles(str(tmp_path / "gpustat"), [str(tmp_path / "dcgm")])
    books = Slurm(
        ["n01"],
        commands=Commands(slurm.environment, folders=(), timeout_s=5.0),
        files=files,
        conf_folders=[],
        cgroup_root="/none",
    )
    resolver = Resolver(node="n01", schedulers=lambda: [books], proc_root=str(root))
    resolver.look(GPUS)
    yield slurm, resolver
    resolver._pollers["slurm"].stop()


def sent(resolver):
    """The batch of one window, as the hub decodes it."""
    processes = {
        "GPU-0": [ProcessReading(100, 1024)],
        "GPU-1": [],
        "GPU-2": [],
        "GPU-3": [ProcessReading(200)],
    }
    workload = resolver.resolve(processes, gpus=GPUS, start_ms=NOW, end_ms=NOW + 10_000)
    closed = batch.ClosedWindow(
        NOW, [GPUWindow(gpu.uuid, NOW, 10_000, {}) for gpu in GPUS], workload
    )
    content = batch.build(
        [closed],
        sender=batch.Sender("n01", "boot", NOW - 60_000, 10),
        gpus=GPUS,
        agent={},
        events=[],
    )
    return wire.decode(wire.encode(content))


def wait_for(resolver, ok):
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        content = sent(resolver)
        if {source["kind"]: source["ok"] for source in content.sources}["slurm"] is ok:
            return content
        time.sleep(0.01)
    raise AssertionError("slurm never was ok=%s" % ok)


def test_slurm_says_who_holds_what_and_processes_find_their_job(node):
    _, resolver = node

    content = wait_for(resolver, True)

    assert [
        (item["gpu"], content.jobs[item["job"]]["key"], item["source"])
        for item in content.allocations
    ] == [
        (0, "slurm/della/4711", "slurm"),
        (1, "slurm/della/4711", "slurm"),
    ]
    assert [(item["pid"], item["job"], item["user"]) for item in content.processes] == [
        (100, 0, "root"),
        (200, None, "1000"),
    ]
    assert "hunter2" not in json.dumps(wire.encode(content).decode())


def test_while_slurm_is_down_nothing_is_concluded_and_the_process_keeps_its_job(node):
    slurm, resolver = node
    wait_for(resolver, True)
    slurm.say("down", "")
    poller = resolver._pollers["slurm"]
    began_s = poller._clock_s()
    poller._clock_s = lambda: began_s + 61  # and the thread, which sleeps, has not asked since

    content = sent(resolver)

    assert {source["kind"]: source["ok"] for source in content.sources} == {
        "slurm": False,
        "process": True,
    }
    assert content.allocations == []
    assert [(job["key"], job["name"], job["user"]) for job in content.jobs] == [
        ("slurm/della/4711", "train", "ann")
    ]
    assert content.processes[0]["job"] == 0
