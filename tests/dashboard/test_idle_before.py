"""A hole in the data does not make a GPU look busy before it: what was idle on both sides says so."""

import pytest

from fleetwatch.dashboard.idle_before import IdleBefore, idle_before
from fleetwatch.ledger.selectors import RunSpan

MINUTE_MS = 60_000


def run(start: int, end: int, *, state="idle", condition="quiet", job=1, gpu=1) -> RunSpan:
    """From minute to minute."""
    lasted_ms = (end - start) * MINUTE_MS
    return RunSpan(
        gpu, job, condition, start * MINUTE_MS, end * MINUTE_MS, {state: lasted_ms}, None
    )


NOW_IDLE = run(100, 160)
HOLE = run(98, 100, state="unobserved", condition="unobserved")


def test_idle_on_both_sides_of_a_hole_is_idle_since_before_it():
    assert idle_before(NOW_IDLE, [run(10, 98), HOLE]) == IdleBefore(10 * MINUTE_MS, 2 * MINUTE_MS)


def test_each_hole_on_the_way_back_counts():
    earlier = [run(0, 40), run(45, 98), HOLE]

    assert idle_before(NOW_IDLE, earlier) == IdleBefore(0, 7 * MINUTE_MS)


@pytest.mark.parametrize(
    "before",
    [
        run(10, 98, state="useful", condition="active"),
        run(10, 98, state="stalled"),  # quiet, for less long than is idle
        run(10, 98, state="free", condition="free", job=None),
        run(10, 98, state="unavailable", condition="unavailable", job=None),
    ],
)
def test_what_was_not_idle_before_the_hole_says_nothing(before):
    assert idle_before(NOW_IDLE, [run(0, 10), before, HOLE]) is None


def test_work_right_before_it_leaves_no_hole_to_speak_of():
    working = run(98, 100, state="useful", condition="active")

    assert idle_before(NOW_IDLE, [run(10, 98), working]) is None


def test_without_anything_before_it_nothing_is_said():
    assert idle_before(NOW_IDLE, [HOLE]) is None


def test_what_others_held_says_nothing_of_it():
    others = [run(50, 99, job=2), run(50, 99, gpu=2)]

    assert idle_before(NOW_IDLE, [run(10, 98), *others]) == IdleBefore(
        10 * MINUTE_MS, 2 * MINUTE_MS
    )
