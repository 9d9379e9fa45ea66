"""Processes that no scheduler knows: which of them are one job, and what it is called."""

from pathlib import Path

import pytest

from agent.readings import ProcessReading
from tests.agent import fake_proc
from tests.agent.workloads.resolving import GPU, holds, made, resolve


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return fake_proc.host(tmp_path)


def test_the_processes_that_one_launcher_started_are_one_job(root):
    fake_proc.process(root, 50, name="bash")
    fake_proc.process(root, 60, name="torchrun", start_ticks=70, parent=50)
    fake_proc.process(root, 61, parent=60)
    fake_proc.process(root, 62, parent=60)

    workload = resolve(made(root), {GPU: [ProcessReading(61)], "GPU-2": [ProcessReading(62)]})

    assert [job.key for job in workload.jobs] == ["process/gpu-07/0b7c1f7e-60-70"]
    assert [uuid for uuid, _, _ in holds(workload)] == [GPU, "GPU-2"]


@pytest.mark.parametrize(
    "parent", ["bash", "run.sh", "jupyter-lab", "tmux: server", "systemd", "raylet"]
)
def test_what_a_shell_or_a_server_started_is_each_its_own_job(root, parent):
    fake_proc.process(root, 50, name=parent)
    fake_proc.process(root, 61, parent=50)
    fake_proc.process(root, 62, parent=50)

    assert len(resolve(made(root), [61, 62]).jobs) == 2


def test_a_python_that_spawns_is_the_launcher_also_after_it_is_gone(root):
    fake_proc.process(root, 60, start_ticks=70)
    fake_proc.process(root, 61, parent=60, name="pt_main_thread")
    resolver = made(root)
    first = resolve(resolver, [61])
    (root / "60/stat").unlink()
    second = resolve(resolver, [61], at=60_000)

    assert [job.key for job in (*first.jobs, *second.jobs)] == ["process/gpu-07/0b7c1f7e-60-70"] * 2


@pytest.mark.parametrize(
    "name",
    ["x" * 250 + ".service", "evil\x07.service", r"evil\x07\x2f.service", "\u00e9 \u2028.service"],
)
def test_a_name_that_a_user_made_up_spoils_no_key(root, name):
    fake_proc.process(root, 1, cgroup=f"0::/user.slice/user-1000.slice/user@1000.service/{name}")

    (job,) = resolve(made(root), [1]).jobs

    assert job.key.count("/") == 2
    assert job.key.isprintable()
    assert len(job.key) < 400


def test_more_processes_than_anybody_has_are_cut(root):
    workload = resolve(made(root), list(range(100_000, 102_000)))

    assert len(workload.processes) == 1024
