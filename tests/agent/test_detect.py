import sys
from types import SimpleNamespace

import pytest

from agent.workloads import slurm_door
from agent.workloads.detect import LATER_S, SETTLED_S, SOON_S, Finder, Place
from agent.workloads.hpc_files import HPCFiles
from tests.agent import fake_proc

PLACE = Place("gpu-07", "della")
DOORS = (("slurm", "doors.slurm"), ("kubernetes", "doors.kubernetes"), ("docker", "doors.docker"))


class Doors:
    """Doors of our own; what is `here` a test may change."""

    def __init__(self, monkeypatch, *here):
        self.here, self.asked, self.places = set(here), [], []
        for kind, name in DOORS:
            monkeypatch.setitem(
                sys.modules,
                name,
                SimpleNamespace(is_here=self._is_here(kind), open_scheduler=self._open(kind)),
            )

    def _is_here(self, kind):
        def is_here(place):
            self.asked.append(kind)
            return kind in self.here

        return is_here

    def _open(self, kind):
        def open_scheduler(place):
            self.places.append(place)
            return SimpleNamespace(kind=kind)

        return open_scheduler


class Watch:
    def __init__(self):
        self.s = 1000.0

    def __call__(self):
        return self.s


def finder(*kinds, watch=None):
    return Finder(kinds, PLACE, doors=DOORS, clock_s=watch or Watch())


def found(one):
    return [scheduler.kind for scheduler in one.schedulers()]


@pytest.mark.parametrize(
    ("here", "kinds"),
    [
        ([], []),
        (["docker"], ["docker"]),
        (["slurm"], ["slurm"]),
        (["kubernetes", "slurm"], ["slurm", "kubernetes"]),
        (["docker", "kubernetes"], ["kubernetes"]),  # its containers are the pods'
    ],
)
def test_auto_finds_what_is_here(monkeypatch, here, kinds):
    Doors(monkeypatch, *here)

    assert found(finder("auto")) == kinds


@pytest.mark.parametrize(
    ("wanted", "kinds"),
    [(["process"], []), (["slurm"], ["slurm"]), (["docker", "slurm"], ["slurm", "docker"])],
)
def test_what_is_named_is_read_whether_it_is_here_or_not(monkeypatch, wanted, kinds):
    doors = Doors(monkeypatch)

    assert found(finder(*wanted)) == kinds
    assert doors.asked == []
    assert set(doors.places) <= {PLACE}


def test_a_scheduler_is_opened_once(monkeypatch):
    doors, watch = Doors(monkeypatch, "slurm"), Watch()
    one = finder("auto", watch=watch)
    first = one.schedulers()
    watch.s += SOON_S

    assert one.schedulers() == first
    assert len(doors.places) == 1


def test_what_starts_after_the_agent_is_found_within_a_minute_and_later_within_ten(monkeypatch):
    doors, watch = Doors(monkeypatch), Watch()
    one = finder("auto", watch=watch)
    seen = [found(one)]
    doors.here.add("docker")
    for step_s in (SOON_S - 1, 1, SETTLED_S):
        watch.s += step_s
        seen.append(found(one))
    doors.here.add("kubernetes")
    for step_s in (LATER_S - 1, 1):
        watch.s += step_s
        seen.append(found(one))

    assert seen == [[], [], ["docker"], ["docker"], ["docker"], ["kubernetes", "docker"]]


def test_what_was_here_once_stays(monkeypatch):
    doors, watch = Doors(monkeypatch, "slurm"), Watch()
    one = finder("auto", watch=watch)
    found(one)
    doors.here.clear()
    watch.s += SOON_S

    assert found(one) == ["slurm"]


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

    assert (
        slurm_door.is_here(Place("n", proc_root=str(root)), files=no_files, folders=()) is is_here
    )


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

    assert slurm_door.is_here(
        Place("n", proc_root=str(root)), files=no_files, folders=[str(tmp_path / "opt")]
    )


def test_slurms_files_are_here_once_a_prolog_wrote_one_not_where_the_folder_stands_empty(tmp_path):
    files = HPCFiles(str(tmp_path / "gpustat"), [str(tmp_path / "dcgm")])
    (tmp_path / "dcgm").mkdir()

    assert not files.are_here()

    (tmp_path / "dcgm" / "0").write_text("4711\n")
    assert files.are_here()
