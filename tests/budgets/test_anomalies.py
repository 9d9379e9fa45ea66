"""What is unusual, on hours worked out by hand."""

import numpy as np
import pytest

from fleetwatch.budgets.anomalies import unusual_hours

DAYS = 42
LAST = DAYS - 1


def a_team(usd_per_hour: float = 10.0) -> np.ndarray:
    """Six weeks of the same dollars each hour: the usual spread is the least one, 10 % = $1."""
    return np.full((1, DAYS, 24), usd_per_hour)


def found(
    usd: np.ndarray, *, floor: float = 50.0, since: int = 28
) -> list[tuple[int, int, float, float]]:
    return [
        (each.first, each.last, round(each.usd, 2), round(each.usual_usd, 2))
        for each in unusual_hours(usd, since_day=since, floor_usd_per_day=floor)
    ]


def test_an_ordinary_month_has_no_anomaly():
    assert found(a_team()) == []


def test_hours_far_above_the_usual_are_one_anomaly_with_what_was_usual():
    usd = a_team()
    usd[0, 40, 9:13] = 30.0

    assert found(usd) == [(40 * 24 + 9, 40 * 24 + 12, 120.0, 40.0)]


@pytest.mark.parametrize(("usd_of_hour", "count"), [(59.99, 0), (60.0, 1)])
def test_below_the_money_floor_nothing_is_told(usd_of_hour, count):
    usd = a_team()
    usd[0, 40, 9] = usd_of_hour  # $50 more than usual

    assert len(found(usd)) == count


@pytest.mark.parametrize(("usd_of_hour", "count"), [(14.99, 0), (15.0, 1)])
def test_below_five_spreads_nothing_begins(usd_of_hour, count):
    usd = a_team()
    usd[0, 40, :] = usd_of_hour

    assert len(found(usd, floor=1.0)) == count


def test_what_adjoins_belongs_to_it_down_to_two_and_a_half_spreads():
    usd = a_team()
    usd[0, 40, 8:14] = [12.4, 12.5, 100.0, 100.0, 12.5, 12.4]

    assert found(usd) == [(40 * 24 + 9, 40 * 24 + 12, 225.0, 40.0)]


@pytest.mark.parametrize(("pause", "count"), [(3, 1), (4, 2)])
def test_three_usual_hours_do_not_end_it_and_four_do(pause, count):
    usd = a_team()
    usd[0, 40, 2:5] = 100.0
    usd[0, 40, 5 + pause : 8 + pause] = 100.0

    assert len(found(usd)) == count


def test_a_fall_is_told_as_well():
    usd = a_team()
    usd[0, 40] = 0.0

    [(first, last, spent, usual)] = found(usd)

    assert (first, last, spent, usual) == (40 * 24, 40 * 24 + 23, 0.0, 240.0)


def test_a_long_one_needs_the_floor_for_each_of_its_days():
    usd = a_team()
    usd[0, 36:] = 15.0  # $120 a day more than usual, for six days

    assert len(found(usd, floor=120.0)) == 1
    assert found(usd, floor=121.0) == []


def test_the_usual_of_a_monday_is_that_of_mondays():
    usd = a_team()
    usd[0, LAST % 7 :: 7] = 40.0

    assert found(usd) == []


def test_without_three_weeks_before_nothing_is_usual():
    usd = a_team()
    usd[0, 20] = 1000.0

    assert found(usd, since=0) == []


def test_bursts_are_usual_for_a_team_that_comes_in_bursts():
    usd = np.zeros((1, DAYS, 24))
    for day in range(0, DAYS, 3):
        usd[0, day, 8:20] = 20.0

    assert found(usd) == []


def test_what_is_not_known_neither_begins_nor_ends_one():
    usd = a_team()
    usd[0, 40, 9:14] = [100.0, np.nan, np.nan, np.nan, 100.0]

    assert found(usd) == [(40 * 24 + 9, 40 * 24 + 13, 200.0, 20.0)]


def test_an_anomaly_does_not_become_usual_by_itself():
    usd = a_team()
    usd[0, 33, 9:13] = 100.0  # a week before the other
    usd[0, 40, 9:13] = 100.0

    assert [first for first, *_ in found(usd)] == [33 * 24 + 9, 40 * 24 + 9]
