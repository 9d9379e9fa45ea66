"""Slurm's jobs by the files that a site's prolog writes, beside its commands and without them."""

import pytest

from agent.readings import GPUInfo, SchedulerError
from agent.workloads.slurm.client import Slurm
from agent.workloads.slurm.command import Commands
from agent.workloads.slurm.hpc_files import HPCFiles
from agent.workloads.slurm.job_books import STALE_MS
from tests.agent.fake_slurm import GPUS, IDLE, NOW, held, job_2405, write_claim


def test_the_prologs_file_says_which_gpu_and_slurm_everything_else(fake, books, tmp_path):
    fake.job(job_2405(gres_detail=["gpu:a100:1(IDX:0)"]))
    fake.job(job_2405(job_id=5, name="other", gres_detail=["gpu:a100:1(IDX:1)"]))
    write_claim(tmp_path / "gpustat" / "GPU-3", "4711 1000\n")
    write_claim(tmp_path / "gpustat" / "1", "4711 1000\n")

    holdings = books().poll(GPUS, NOW)

    assert held(holdings) == {
        ("GPU-0", "4711"): 1.0,
        ("GPU-3", "4711"): 1.0,
        ("GPU-1", "4711"): 1.0,
    }
    assert [job.name for job in holdings.jobs] == ["train"]


def test_a_file_knows_nothing_of_parts_of_a_gpu(fake, books, tmp_path):
    fake.node(gres="gpu:4,shard:32", used="shard:4(2/8,2/8,0/8,0/8)")
    fake.job(job_2405(job_id=1, gres_detail=["shard:2(2/8,0/8,0/8,0/8)"]))
    fake.job(job_2405(job_id=2, gres_detail=["shard:4(4/8,0/8,0/8,0/8)"]))
    write_claim(tmp_path / "gpustat" / "0", "2 1000\n")

    assert held(books().poll(GPUS, NOW)) == {("GPU-0", "1"): 0.25, ("GPU-0", "2"): 0.5}


def test_files_alone_do_while_the_controller_is_down(fake, books, tmp_path):
    fake.node(used=IDLE)
    slurm = books()
    slurm.poll(GPUS, NOW)
    fake.say("down", "")
    write_claim(tmp_path / "gpustat" / "2", "4712 4000000000\n", at_ms=NOW + 5000)

    holdings = slurm.poll(GPUS, NOW + 10_000)

    assert held(holdings) == {("GPU-2", "4712"): 1.0}
    assert (holdings.jobs[0].key, holdings.jobs[0].user, holdings.jobs[0].state) == (
        "slurm/della/4712",
        "4000000000",
        "RUNNING",
    )
    assert (holdings.drained, holdings.pending_gpus) == (None, None)


def test_a_host_without_slurms_commands_has_its_files(tmp_path):
    write_claim(tmp_path / "gpustat" / "0", "4711 0\n")
    files = HPCFiles(str(tmp_path / "gpustat"), [])
    slurm = Slurm(
        ["n01"],
        cluster="tiger",
        commands=Commands({}, folders=()),
        files=files,
        conf_folders=[],
        cgroup_root=str(tmp_path),
    )

    holdings = slurm.poll(GPUS, NOW)

    assert (holdings.jobs[0].key, holdings.jobs[0].user) == ("slurm/tiger/4711", "root")


def test_a_cluster_whose_name_nobody_tells_is_not_guessed(fake, books, tmp_path):
    fake.say("down", "")
    write_claim(tmp_path / "gpustat" / "0", "4711 0\n")

    with pytest.raises(SchedulerError, match="Unable to contact"):
        books().poll(GPUS, NOW)
    (tmp_path / "etc" / "slurm.conf").write_text("# ClusterName=old\nClusterName=tiger\n")

    assert books().poll(GPUS, NOW).jobs[0].key == "slurm/tiger/4711"


@pytest.mark.parametrize(
    ("age_ms", "holds"), [(STALE_MS - 1, True), (STALE_MS, False), (STALE_MS + 1, False)]
)
def test_a_file_that_an_epilog_left_behind_holds_nothing(fake, books, tmp_path, age_ms, holds):
    fake.node(used=IDLE)
    write_claim(tmp_path / "gpustat" / "0", "4711 1000\n", at_ms=NOW - age_ms)

    assert bool(books().poll(GPUS, NOW).allocations) is holds


def test_dcgms_mapping_counts_as_the_driver_does_and_may_name_several_jobs(fake, books, tmp_path):
    (tmp_path / "etc").mkdir(exist_ok=True)
    (tmp_path / "etc" / "gres.conf").write_text("Name=gpu File=/dev/nvidia[0-3]\n")
    write_claim(tmp_path / "dcgm" / "0", "1\n2\n2\n\n")
    write_claim(tmp_path / "dcgm" / "3", "")
    write_claim(tmp_path / "dcgm" / "1.7", "3\n")
    instance = GPUInfo("MIG-7", parent_uuid="GPU-1", gpu_instance=7)
    fake.node(gres="gpu:4")

    holdings = books().poll([*GPUS, instance], NOW)

    assert held(holdings) == {("GPU-0", "1"): None, ("GPU-0", "2"): None, ("MIG-7", "3"): 1.0}


@pytest.mark.parametrize(
    "name", ["..", "GPU-0; reboot", "x", "-1", "0.x", "99999999999", "GPU-" + "a" * 200]
)
def test_files_that_name_no_gpu_are_left_alone(fake, books, tmp_path, name):
    if name != "..":
        write_claim(tmp_path / "gpustat" / name, "4711 1000\n")

    fake.node(used=IDLE)
    assert list(books().poll(GPUS, NOW).allocations) == []


@pytest.mark.parametrize("text", ["", "\n", "rm -rf /", "-5 3", "1" * 5000])
def test_a_file_without_a_job_claims_nothing(fake, books, tmp_path, text):
    fake.node(used=IDLE)
    write_claim(tmp_path / "gpustat" / "0", text)

    assert list(books().poll(GPUS, NOW).allocations) == []
