from types import SimpleNamespace

import pytest

from agent.workloads.finder import LATER_S, SETTLED_S, SOON_S, Finder
from agent.workloads.scheduler_door import Place

PLACE = Place("gpu-07", "della")
KINDS = ("slurm", "kubernetes", "docker")


class Doors:
    """Doors of our own; what is `here` a test may change."""

    def __init__(self, *here):
        self.here, self.asked, self.places = set(here), [], []
        self.all = [
            (kind, SimpleNamespace(is_here=self._is_here(kind), open_scheduler=self._open(kind)))
            for kind in KINDS
        ]

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


def finder(doors, *kinds, watch=None):
    return Finder(kinds, PLACE, doors=doors.all, clock_s=watch or Watch())


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
def test_auto_finds_what_is_here(here, kinds):
    assert found(finder(Doors(*here), "auto")) == kinds


@pytest.mark.parametrize(
    ("wanted", "kinds"),
    [(["process"], []), (["slurm"], ["slurm"]), (["docker", "slurm"], ["slurm", "docker"])],
)
def test_what_is_named_is_read_whether_it_is_here_or_not(wanted, kinds):
    doors = Doors()

    assert found(finder(doors, *wanted)) == kinds
    assert doors.asked == []
    assert set(doors.places) <= {PLACE}


def test_a_scheduler_is_opened_once():
    doors, watch = Doors("slurm"), Watch()
    one = finder(doors, "auto", watch=watch)
    first = one.schedulers()
    watch.s += SOON_S

    assert one.schedulers() == first
    assert len(doors.places) == 1


def test_what_starts_after_the_agent_is_found_within_a_minute_and_later_within_ten():
    doors, watch = Doors(), Watch()
    one = finder(doors, "auto", watch=watch)
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


def test_what_was_here_once_stays():
    doors, watch = Doors("slurm"), Watch()
    one = finder(doors, "auto", watch=watch)
    found(one)
    doors.here.clear()
    watch.s += SOON_S

    assert found(one) == ["slurm"]
