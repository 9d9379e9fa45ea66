"""What was measured at several sizes of fleet is told for each of them, in a line of the target
table of its own.
"""

import pytest

from benchmarks import bench_fleet
from benchmarks.bench_fleet import HEAT, OURS, REPORT, SERIES, WASTE, Measured
from benchmarks.questions import Took
from benchmarks.tables import BenchError


def _measured(gpus: int, report_s: float, page_s: float) -> Measured:
    spent = {"fill_s": gpus / 10, "post_cpu_s": gpus / 100, "check_s": gpus / 50}
    found = Measured(gpus, rounds=3, values=gpus, bytes_per_value={OURS: 1.0}, **spent)
    for question in (HEAT, SERIES, WASTE):
        found.of(question, OURS).add(0.1, 0.1)
    found.of(REPORT, OURS).add(report_s, report_s)
    found.pages = {"/": Took([0.01], [0.01], 5), "/jobs": Took([page_s], [page_s], 7)}
    return found


SMALL, LARGE = _measured(100, 0.04, 0.2), _measured(1000, 0.6, 0.4)


def test_pages_and_the_report_have_a_goal_for_each_size():
    goals = [goal for one in (SMALL, LARGE) for goal in bench_fleet.pages_table(one).goals]

    assert [(goal.where, goal.measured, goal.verdict()) for goal in goals] == [
        ("100 GPUs x 30 d", 0.04, "moonshot"),
        ("100 GPUs x 30 d", 200.0, "must"),
        ("1,000 GPUs x 30 d", 0.6, "missed by 2x"),
        ("1,000 GPUs x 30 d", 400.0, "missed by 1.3x"),
    ]


def test_growth_says_which_cost_grows_most():
    (goal,) = bench_fleet.growth([SMALL, LARGE]).goals

    assert goal.name == "growth, the steepest slope (report of 30 days by team)"
    assert goal.measured == pytest.approx(1.176, abs=0.001)  # log10(0.6 / 0.04)
    assert goal.where == "100 to 1,000 GPUs"


def test_a_fleet_that_does_not_fit_the_disk_is_not_begun(monkeypatch):
    monkeypatch.setattr(
        bench_fleet.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 59e9})()
    )

    bench_fleet._check_disk(1000)
    with pytest.raises(BenchError, match="10,000 GPUs need 60 GB in /var/tmp, 59 GB are free"):
        bench_fleet._check_disk(10_000)
