import pytest

from agent.workloads.scheduler_door import Place
from agent.workloads.slurm import detect
from agent.workloads.slurm.hpc_files import HPCFiles
from tests.agent import fake_proc


@pytest.mark.parametrize(
    ("has_scontrol", "daemon", "is_here"),
    [(True, "slurmd", True), (True, "sshd", False), (False, "slurmd", False)],
)
def test_slurm_is_here_where_its_daemon_runs_and_can_be_asked(
    tmp_path, monkeypatch, has_scontrol, daemon, is_here
):
    root = fake_proc.host(tmp_path / "proc")
    fake_proc.process(root, 7)
    (root / "7/comm").write_text(daemon + "\n")
    if has_scontrol:
        (tmp_path / "scontrol").write_text("")
        (tmp_path / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    no_files = HPCFiles(str(tmp_path / "gpustat"), [])

    assert detect.is_here(Place("n", proc_root=str(root)), files=no_files, folders=()) is is_here


def test_slurms_commands_are_found_where_packages_put_them_when_path_does_not_name_them(
    tmp_path, monkeypatch
):
    root = fake_proc.host(tmp_path / "proc")
    fake_proc.process(root, 7)
    (root / "7/comm").write_text("slurmd\n")
    (tmp_path / "opt").mkdir()
    (tmp_path / "opt/scontrol").write_text("")
    (tmp_path / "opt/scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    no_files = HPCFiles(str(tmp_path / "gpustat"), [])

    assert detect.is_here(
        Place("n", proc_root=str(root)), files=no_files, folders=[str(tmp_path / "opt")]
    )


def test_slurms_files_are_here_once_a_prolog_wrote_one_not_where_the_folder_stands_empty(tmp_path):
    files = HPCFiles(str(tmp_path / "gpustat"), [str(tmp_path / "dcgm")])
    (tmp_path / "dcgm").mkdir()

    assert files.claims() == []

    (tmp_path / "dcgm" / "0").write_text("4711\n")
    assert files.claims()
