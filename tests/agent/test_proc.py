import json
import os
from pathlib import Path

import pytest

from agent.reading import GPUInfo, Job, ProcessReading
from agent.workloads import Resolver
from agent.workloads.proc import Owner, Proc, owner_of
from tests.agent import fake_proc

HEX = "9ec39b91f3d70e1beff50a308f77067065ea6be0d91a3378375056cd4422cf3d"
OTHER_HEX = "ec08435e04266c5ba381fccbb829f626d11d8ddf5f8f547263c7a2d79ab4787a"
POD = "045b1e35-7f13-11e7-ac42-0050568ffca0"
GPU = "GPU-1"
NOW = 1_794_000_100_000

CGROUPS = (
    ("0::/user.slice/user-1000.slice/session-3.scope", None),
    ("0::/", None),
    (f"0::/{HEX}", None),  # a bare hex string may be anything
    (f"0::/system.slice/docker-{HEX}.scope", Owner("docker", HEX)),
    (f"12:name=systemd:/docker/{HEX}\n5:devices:/docker/{HEX}", Owner("docker", HEX)),
    (f"9:name=systemd:/docker/{HEX}/docker/{OTHER_HEX}", Owner("docker", OTHER_HEX)),
    (f"0::/machine.slice/libpod-{HEX}.scope/container", Owner("podman", HEX)),
    (f"0::/kubepods.slice/kubepods-besteffort-pod{POD.replace('-', '_')}.slice/docker-{HEX}.scope", Owner("kubernetes", POD)),
    (f"\t11:pids:/kubepods/besteffort/pod{POD}/{HEX}", Owner("kubernetes", POD)),
    ("4:memory:/slurm/uid_20821/job_11/step_0/task_1", Owner("slurm", "11")),
    ("4:memory:/slurm_node7/uid_20821/job_11/step_batch", Owner("slurm", "11")),
    ("0::/system.slice/slurmstepd.scope/job_4/step_0/user/task_0", Owner("slurm", "4")),
    ("0::/system.slice/node7_slurmstepd.scope/job_4/step_extern/user", Owner("slurm", "4")),
    ("0::/system.slice/slurmstepd.scope/s5K1KKYAYG5D00/step_0", Owner("slurm", "s5K1KKYAYG5D00")),
    ("0::/system.slice/slurmstepd.scope/system", None),
    (f"0::/system.slice/slurmstepd.scope/job_4/step_0/user/docker-{HEX}.scope", Owner("slurm", "4")),
)


@pytest.mark.parametrize(("cgroup", "owner"), CGROUPS)
def test_the_control_group_names_the_owner(cgroup, owner):
    assert owner_of(cgroup) == owner


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return fake_proc.host(tmp_path)


def _resolver(root: Path, **options: object) -> Resolver:
    return Resolver(node="gpu-07", proc_root=str(root), docker_socket=str(root / "no-socket"), **options)


def test_a_process_is_known_by_boot_pid_and_start(root):
    fake_proc.process(root, 4711, name="python (a) b", start_ticks=100 * os.sysconf("SC_CLK_TCK"))

    facts = Proc(str(root)).facts(4711)

    assert (facts.name, facts.state, facts.started_ms, facts.user) == ("python (a) b", "S", 1_794_000_100_000, "root")


def test_a_user_that_this_host_does_not_know_is_his_number(root):
    fake_proc.process(root, 4711, uid=3_999_123)

    assert Proc(str(root)).facts(4711).user == "3999123"


def test_a_process_that_is_gone_or_hidden_is_none(root):
    assert Proc(str(root)).facts(99) is None


def test_a_bare_process_holds_its_gpu_from_the_first_window_that_saw_it(root):
    fake_proc.process(root, 4711, start_ticks=77)
    resolver = _resolver(root)
    seen = {GPU: [ProcessReading(4711, 1024)]}

    resolver.resolve(seen, gpus=[], start_ms=NOW, end_ms=NOW + 10_000)
    workload = resolver.resolve(seen, gpus=[], start_ms=NOW + 10_000, end_ms=NOW + 20_000)

    (job,), (allocation,), (process,) = workload.jobs, workload.allocations, workload.processes
    assert (job.key, job.user, job.name, job.kind) == ("process/gpu-07/0b7c1f7e-4711-77", "root", "python", "batch")
    assert (allocation.uuid, allocation.job_key, allocation.source) == (GPU, job.key, "process")
    assert (allocation.start_ms, allocation.end_ms) == (NOW, None)
    assert (process.pid, process.job_key, process.state, process.memory_bytes) == (4711, job.key, "S", 1024)
    assert [(source.kind, source.ok) for source in workload.sources] == [("process", True)]


def test_a_process_that_began_within_the_window_holds_from_its_own_start(root):
    fake_proc.process(root, 4711, start_ticks=105 * os.sysconf("SC_CLK_TCK"))

    workload = _resolver(root).resolve({GPU: [ProcessReading(4711)]}, gpus=[], start_ms=NOW, end_ms=NOW + 10_000)

    assert workload.allocations[0].start_ms == NOW + 5_000


def test_the_command_line_never_leaves_the_host(root):
    fake_proc.process(root, 4711)

    workload = _resolver(root).resolve({GPU: [ProcessReading(4711)]}, gpus=[], start_ms=NOW, end_ms=NOW + 10_000)

    assert "hunter2" not in repr(workload)
    assert "train.py" not in repr(workload)


def test_a_zombie_is_listed_but_holds_nothing(root):
    fake_proc.process(root, 4711, state="Z")

    workload = _resolver(root).resolve({GPU: [ProcessReading(4711)]}, gpus=[], start_ms=NOW, end_ms=NOW + 10_000)

    assert workload.allocations == []
    assert workload.processes[0].state == "Z"


def test_waiting_for_a_disk_is_no_death_but_a_minute_of_it_is(root):
    fake_proc.process(root, 4711, state="D")
    resolver = _resolver(root)
    seen = {GPU: [ProcessReading(4711)]}

    held = [
        len(resolver.resolve(seen, gpus=[], start_ms=NOW + at, end_ms=NOW + at + 10_000).allocations) for at in range(0, 70_000, 10_000)
    ]

    assert held == [1, 1, 1, 1, 1, 0, 0]


def test_a_pid_of_another_namespace_is_listed_and_concludes_nothing(root):
    workload = _resolver(root).resolve({GPU: [ProcessReading(12)]}, gpus=[], start_ms=NOW, end_ms=NOW + 10_000)

    assert (workload.jobs, workload.allocations) == ([], [])
    assert (workload.processes[0].pid, workload.processes[0].job_key) == (12, None)


def test_where_no_list_could_be_read_the_source_is_not_ok(root):
    workload = _resolver(root).resolve({GPU: None}, gpus=[], start_ms=NOW, end_ms=NOW + 10_000)

    assert [(source.kind, source.ok) for source in workload.sources] == [("process", False)]


def test_a_container_is_one_job_on_all_its_gpus_even_without_the_docker_socket(root):
    for pid in (4711, 4712):
        fake_proc.process(root, pid, cgroup=f"0::/system.slice/docker-{HEX}.scope\n")

    workload = _resolver(root).resolve(
        {GPU: [ProcessReading(4711)], "GPU-2": [ProcessReading(4712)]}, gpus=[], start_ms=NOW, end_ms=NOW + 10_000
    )

    assert [job.key for job in workload.jobs] == [f"docker/gpu-07/{HEX[:12]}"]
    assert [(item.uuid, item.source) for item in workload.allocations] == [(GPU, "docker"), ("GPU-2", "docker")]
    assert {source.kind for source in workload.sources} == {"process", "docker"}


def test_a_declared_job_holds_all_gpus_whatever_runs(root):
    fake_proc.process(root, 4711)
    declared = Job(key="declared/gpu-07/train", scheduler="declared", user="ann", start_ms=NOW - 60_000)
    gpus = [GPUInfo(GPU), GPUInfo("GPU-2")]

    workload = _resolver(root, declared=declared).resolve({GPU: [ProcessReading(4711)]}, gpus=gpus, start_ms=NOW, end_ms=NOW + 10_000)

    assert [(item.uuid, item.source, item.start_ms) for item in workload.allocations] == [
        (GPU, "declared", NOW - 60_000),
        ("GPU-2", "declared", NOW - 60_000),
    ]
    assert workload.processes[0].job_key == declared.key
    assert [(source.kind, source.ok) for source in workload.sources] == [("declared", True)]


@pytest.mark.skipif("FLEETWATCH_EXTERNAL_DATA" not in os.environ, reason="FLEETWATCH_EXTERNAL_DATA is not set")
def test_control_groups_of_real_machines():
    recorded = json.loads((Path(os.environ["FLEETWATCH_EXTERNAL_DATA"]) / "cgroups/containers_v1.json").read_text())

    owners = {case["test"]: owner_of(case["proc_cgroup"]) for case in recorded}

    ids = {case["test"]: case["container_id"] for case in recorded}
    assert owners["TestDockerIDCentOS"] == Owner("docker", ids["TestDockerIDCentOS"])
    assert owners["TestDockerIDRancherOS"] == Owner("docker", ids["TestDockerIDRancherOS"])
    assert (owners["TestHostProcess"], owners["TestNsEnterProcess"]) == (None, None)
    # a path of nothing but 64 hex digits names no runtime
    assert owners["TestDockerIDDebian"] is None
    assert {owners[name].kind for name in owners if name.startswith("TestK8s") or "Kubepods" in name} == {"kubernetes"}
