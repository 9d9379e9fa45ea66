"""What was measured at several sizes of fleet is told for each of them, in a line of the target
table of its own.
"""

import pytest

from benchmarks import bench_fleet, opened_pages
from benchmarks.bench_fleet import HEAT, OURS, REPORT, SERIES, WASTE, Measured
from benchmarks.opened_pages import Opened
from benchmarks.questions import Took
from benchmarks.tables import BenchError


def _measured(gpus: int, report_s: float, page_s: float) -> Measured:
    spent = {"fill_s": gpus / 10, "post_cpu_s": gpus / 100, "check_s": gpus / 50}
    found = Measured(gpus, rounds=3, values=gpus, bytes_per_value={OURS: 1.0}, **spent)
    for question in (HEAT, SERIES, WASTE):
        found.of(question, OURS).add(0.1, 0.1)
    found.of(REPORT, OURS).add(report_s, report_s)
    pages = {"/": Took([0.01], [0.01], 5), "/jobs": Took([page_s], [page_s], 7)}
    found.opened = Opened(pages, kernels=[2.0, 2.0])
    return found


SMALL, LARGE = _measured(100, 0.04, 0.2), _measured(1000, 0.6, 0.4)


LARGEST = _measured(10_000, 3.0, 4.0)


def test_the_report_has_a_goal_for_each_size():
    goals = [goal for one in (SMALL, LARGE) for goal in bench_fleet.report(one).goals]

    assert [(goal.where, goal.measured, goal.verdict()) for goal in goals] == [
        ("100 GPUs x 30 d", 0.04, "moonshot"),
        ("1,000 GPUs x 30 d", 0.6, "missed by 2x"),
    ]


def test_the_slowest_page_is_judged_at_each_size_by_the_kernel_of_its_run():
    """Of a machine half as fast as the one on which the targets were set."""
    tables = [opened_pages.table(one.opened, one.gpus) for one in (SMALL, LARGE, LARGEST)]

    assert [
        (goal.where, goal.measured, goal.verdict()) for [goal] in (t.goals for t in tables)
    ] == [
        ("100 GPUs x 30 d", 200.0, "must"),  # 100 of 120
        ("1,000 GPUs x 30 d", 400.0, "missed by 1.7x"),  # 200 of 120
        ("10,000 GPUs x 30 d", 4000.0, "missed by 6.7x"),  # 2000 of 300
    ]


def test_pages_of_a_diagnosed_fleet_say_how_many_findings_it_has():
    assert opened_pages.table(LARGE.opened, 1000, "7 findings").title == (
        "Pages: 1,000 GPUs x 30 d, 7 findings"
    )


def test_pages_grow_from_a_thousand_gpus_to_ten_thousand_by_half_an_order_at_most():
    *_, pages = bench_fleet.growth([SMALL, LARGE, LARGEST]).goals

    assert (pages.name, pages.where) == ("growth, the slowest page", "1,000 to 10,000 GPUs")
    assert pages.measured == pytest.approx(1.0)  # log10(4.0 / 0.4)
    assert pages.verdict() == "missed by 2x"


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
