"""Joules go with the milliseconds; what a board can not draw is no reading."""

import pytest

from tests.ledger.factories import (
    BUSY,
    QUIET,
    T0,
    Node,
    W,
    Window,
    a_gpu,
)


def test_energy_goes_with_the_milliseconds_and_missing_energy_stays_apart():
    measured = QUIET | {"util_mean": 0.5, "util_max": 1.0, "energy_j": 2_000.0}
    unread = {name: value for name, value in measured.items() if name != "energy_j"}
    # 1 kW on a 700 W board: a counter that was reset; nobody read the watts either
    absurd = measured | {"energy_j": 10_000.0}

    judged = Node(
        [Window(T0, measured), Window(T0 + W, unread), Window(T0 + 2 * W, absurd)],
        hours=1,
        end_ms=T0 + 3 * W,
    ).judge()

    found = {(one.state, one.energy_j): one.gpu_ms for one in judged.entries}
    assert found == {
        ("useful", 1_000.0): 5_000,
        ("useful", None): 10_000,
        ("stalled", 1_000.0): 5_000,
        ("stalled", None): 10_000,
    }


@pytest.mark.parametrize(
    ("told_j", "counted_j"), [(9_100.0, 9_100.0), (9_100.1, 6_000.0), (1e12, 6_000.0)]
)
def test_joules_that_the_board_can_not_draw_are_replaced_by_watts_and_time(told_j, counted_j):
    """A board of 700 W draws at most 9,100 J in ten seconds (1.3 times its limit); its power says
    600 W.
    """
    judged = Node(
        [Window(T0, BUSY | {"power_w": 600.0, "energy_j": told_j})], hours=1, end_ms=T0 + W
    ).judge()

    assert sum(one.energy_j for one in judged.entries) == pytest.approx(counted_j)


@pytest.mark.parametrize(("told_j", "counted_j"), [(19_500.0, 19_500.0), (19_501.0, 2_500.0)])
def test_where_no_limit_is_known_joules_are_those_that_some_board_can_draw(told_j, counted_j):
    """No board has a limit above 1,500 W: 19,500 J in ten seconds; this one's power says 250 W."""
    judged = Node(
        [Window(T0, BUSY | {"power_w": 250.0, "energy_j": told_j})],
        hours=1,
        end_ms=T0 + W,
        capacities=[a_gpu(start_ms=T0, end_ms=T0 + W, idle_w=None, limit_w=None)],
    ).judge()

    assert sum(one.energy_j for one in judged.entries) == pytest.approx(counted_j)
