"""The forecast on fleets whose truth is known."""

import numpy as np
import pytest

from fleetwatch.budgets.forecast import LONGEST, backtest, rhythm

WORKDAY, WEEKEND = 10.0, 2.0  # dollars per hour


def a_history(days: int) -> np.ndarray:
    """One team: $10 an hour on five days, $2 on two; the day to come is the first of five."""
    weekday = np.arange(days)[::-1]  # 0 = yesterday
    per_hour = np.where(weekday % 7 < 2, WEEKEND, WORKDAY)
    return np.repeat(per_hour[None, :, None], 24, axis=2)


def hours(days: int) -> np.ndarray:
    return np.ones((days, 24))


def test_a_week_to_come_has_the_days_of_the_weeks_before():
    found = rhythm(a_history(28), hours(28))

    assert found.usd_per_hour.shape == (1, 7, 24)
    assert np.allclose(found.usd_per_hour[0, :, 0], [10, 10, 10, 10, 10, 2, 2])
    assert not found.has_shifted[0]


def test_hours_of_the_night_are_not_those_of_the_day():
    usd = np.zeros((1, 21, 24))
    usd[:, :, 9:17] = 5.0

    found = rhythm(usd, hours(21))

    assert np.allclose(found.usd_per_hour[0, 3], [0.0] * 9 + [5.0] * 8 + [0.0] * 7)


def test_one_wild_day_moves_nothing_but_a_little():
    usd = a_history(56)
    usd[0, -3] *= 100

    week = rhythm(usd, hours(56)).usd_per_hour.sum()

    assert week == pytest.approx(7 * 24 * (50 + 4) / 7, rel=0.05)


@pytest.mark.parametrize(("days_ago", "has_shifted"), [(5, True), (4, False)])
def test_five_days_of_seven_on_one_side_are_a_new_level(days_ago, has_shifted):
    usd = a_history(56)
    usd[0, -days_ago:] *= 2

    assert bool(rhythm(usd, hours(56)).has_shifted[0]) is has_shifted


def test_after_a_shift_the_last_week_alone_is_the_level():
    usd = a_history(56)
    usd[0, -7:] *= 2

    week = rhythm(usd, hours(56)).usd_per_hour.sum()

    assert week == pytest.approx(2 * 24 * 54)


def test_under_a_week_every_hour_is_the_mean_hour():
    usd = np.zeros((1, 6, 24))
    usd[0, 2:, :] = 3.0  # the team began on the third day

    assert np.allclose(rhythm(usd, hours(6)).usd_per_hour, 3.0)


def test_what_is_not_known_is_not_nothing():
    usd = a_history(28)
    usd[0, 10:12] = np.nan

    assert np.allclose(rhythm(usd, hours(28)).usd_per_hour[0, :, 0], [10, 10, 10, 10, 10, 2, 2])


def test_an_hour_that_came_twice_counts_by_its_length():
    usd, lengths = a_history(28), hours(28)
    usd[0, -2, 2], lengths[-2, 2] = 4.0, 2.0  # clocks set back on a weekend day

    assert rhythm(usd, lengths).usd_per_hour[0, 5, 2] == pytest.approx(2.0)


def test_an_hour_that_was_skipped_is_no_gap():
    usd, lengths = a_history(28), hours(28)
    usd[0, -2, 2], lengths[-2, 2] = np.nan, 0.0

    tried = backtest(usd, lengths)

    assert rhythm(usd, lengths).usd_per_hour[0, 5, 2] == pytest.approx(2.0)
    assert tried.tries[0, 0] == 28 - 7


def test_a_steady_team_was_never_off_and_its_range_is_narrow():
    tried = backtest(a_history(56), hours(56))

    assert tried.median_error[0, 6] == pytest.approx(0.0)
    assert (tried.low[0, 6], tried.high[0, 6]) == (-0.01, 0.01)
    assert tried.tries[0].tolist()[:7] == [49, 48, 47, 46, 45, 44, 43]


def test_what_was_never_tried_has_no_error_and_a_wide_range():
    tried = backtest(a_history(10), hours(10))

    assert tried.tries[0, LONGEST - 1] == 0
    assert np.isnan(tried.median_error[0, LONGEST - 1])
    assert (tried.low[0, LONGEST - 1], tried.high[0, LONGEST - 1]) == (-0.5, 1.0)


def test_days_before_a_team_began_are_not_tried():
    usd = a_history(56)
    usd[0, :30] = 0.0

    assert backtest(usd, hours(56)).tries[0, 0] == 56 - 30 - 7


def test_no_day_at_all_gives_an_empty_answer():
    found = rhythm(np.zeros((2, 0, 24)), hours(0))

    assert found.usd_per_hour.shape == (2, 7, 24)
    assert backtest(np.zeros((2, 0, 24)), hours(0)).tries.sum() == 0


@pytest.mark.parametrize("days", [84, 182])
def test_the_range_holds_about_eight_of_ten_months_of_a_noisy_fleet(days):
    random = np.random.default_rng(7)
    noise = random.lognormal(0, 0.2, (120, days + LONGEST, 1)) * random.lognormal(
        0, 0.1, (120, days + LONGEST, 24)
    )
    usd = a_history(days + LONGEST) * noise * random.lognormal(3, 1, (120, 1, 1))

    tried = backtest(usd[:, :days], hours(days))
    week = rhythm(usd[:, :days], hours(days)).usd_per_hour.sum(axis=2)
    expected = np.cumsum(week[:, np.arange(LONGEST) % 7], axis=1)
    off = np.cumsum(usd[:, days:].sum(axis=2), axis=1) / expected - 1

    held = ((off >= tried.low) & (off <= tried.high)).mean(axis=0)
    assert held.min() > 0.68
    assert held.max() < 0.99
    # what was told of the error is what it then was
    assert np.median(tried.median_error[:, 13]) == pytest.approx(
        np.median(np.abs(off[:, 13])), rel=0.35
    )


def on_days(days: int, *, every: int, usd: float = 10.0, a_day: float = 0.0) -> np.ndarray:
    """One team: so many dollars at nine in the morning of each n-th day, and some in all hours."""
    spent = np.full((1, days, 24), a_day / 24)
    spent[0, ::every, 9] += usd
    return spent


@pytest.mark.parametrize("every", [2, 3, 5, 6, 8, 9, 10, 13])
def test_what_is_spent_each_few_days_has_no_shape_and_is_forecast_all_the_same(every):
    history = on_days(every * 10, every=every)

    week = rhythm(history, hours(every * 10)).usd_per_hour.sum()

    assert week == pytest.approx(7 * 10 / every, rel=0.15)


def test_a_sparse_team_spends_the_mean_of_its_days_without_dollars_too():
    found = rhythm(on_days(35, every=9), hours(35)).usd_per_hour

    # four days of $10 in 35, at hours that nobody knows
    assert found.sum() == pytest.approx(4 * 10 / 35 * 7)
    assert np.allclose(found, found[0, 0, 0])


def test_days_that_are_like_no_other_count_where_they_are_most_of_what_is_spent():
    found = rhythm(on_days(63, every=9, usd=90.0, a_day=1.0), hours(63)).usd_per_hour

    # a dollar a day is the shape, and 6 or 7 times 90 dollars in 56 days no burst
    assert found.sum() == pytest.approx(7 * (1 + 10), rel=0.15)


def test_two_wild_days_are_no_habit_and_three_are_one_only_where_the_shape_holds_less_than_half():
    usual = np.full((1, 56, 24), 10 / 24)
    weeks = {}
    for count, factor in ((2, 100), (3, 100), (3, 10)):
        spent = usual.copy()
        spent[0, [30, 40, 50][:count]] *= factor
        weeks[count, factor] = rhythm(spent, hours(56)).usd_per_hour.sum()

    assert weeks[2, 100] == pytest.approx(70, rel=0.05)
    assert weeks[3, 10] == pytest.approx(70, rel=0.05)
    # 3 x $990 more than usual in 56 days
    assert weeks[3, 100] == pytest.approx(70 + 7 * 3 * 990 / 56, rel=0.02)


def test_of_days_that_are_a_habit_a_wild_one_counts_as_far_as_four_spreads():
    spent = on_days(54, every=9)
    spent[0, 27, 9] = 10_000

    week = rhythm(spent, hours(54)).usd_per_hour.sum()

    # six days: five of $10, and one that counts as $12
    assert week == pytest.approx(7 * 62 / 54, rel=0.01)


def test_a_sparse_team_that_works_each_day_now_has_the_level_of_its_last_week():
    spent = on_days(56, every=9)
    spent[0, -7:, 9] = 10

    found = rhythm(spent, hours(56))

    assert found.has_shifted[0]
    assert found.usd_per_hour.sum() == pytest.approx(70)
