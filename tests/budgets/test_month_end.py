"""A month at its end, by hand: $1 an hour by day, $0 by night, from the 20th on."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from fleetwatch.budgets.calendar import cuts_of, lengths, month, wall_hour
from fleetwatch.budgets.models import Outlook
from fleetwatch.budgets.month_end import (
    MAY_EXCEED,
    NO_BUDGET,
    OVER,
    PARTIAL,
    UNKNOWN,
    WILL_EXCEED,
    WITHIN,
    Step,
    predict,
    risk,
)
from fleetwatch.figures import boundaries
from fleetwatch.lib.intervals import Interval

UTC_ZONE = ZoneInfo("UTC")
DAY = [0.0] * 8 + [1.0] * 12 + [0.0] * 4  # $12
OUTLOOK = Outlook(
    origin=datetime(2026, 11, 20, tzinfo=UTC),
    usd_per_hour=[DAY] * 7,
    low=[-0.5] * 31,
    high=[1.0] * 31,
)
REST = Interval(datetime(2026, 11, 20, 12, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC))


def at_end(
    budget: str | None = None,
    *,
    spent: str = "100",
    rest: Interval = REST,
    outlook: Outlook = OUTLOOK,
    zone: ZoneInfo = UTC_ZONE,
):
    return predict(
        outlook,
        rest,
        Decimal(spent),
        budget_usd=None if budget is None else Decimal(budget),
        zone=zone,
    )


def test_the_end_is_what_was_spent_and_the_hours_to_come():
    end = at_end().end

    # 8 of today's 12 hours are left, and ten days
    assert (end.until, end.expected_usd) == (REST.end, 100 + 8 + 120)


def test_the_range_is_of_what_is_to_come_alone():
    end = at_end().end

    assert (end.low_usd, end.high_usd) == (100 + 64, 100 + 256)


def test_there_is_a_step_for_each_day_that_ends():
    steps = at_end().steps

    assert [step.until.day for step in steps] == [21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 1]
    assert [step.expected_usd for step in steps[:2]] == [108, 120]


def test_the_range_of_a_day_is_that_of_as_many_days_ahead():
    low = [-0.1, -0.2] + [-0.5] * 29
    outlook = Outlook(
        origin=OUTLOOK.origin, usd_per_hour=OUTLOOK.usd_per_hour, low=low, high=OUTLOOK.high
    )
    steps = at_end(outlook=outlook).steps

    assert [step.low_usd for step in steps[:2]] == [100 + 8 * 0.9, 100 + 20 * 0.8]


@pytest.mark.parametrize(
    ("budget", "passes_at"),
    [
        ("107.5", datetime(2026, 11, 20, 20, tzinfo=UTC)),  # in the last hour of the day
        ("108", datetime(2026, 11, 21, 9, tzinfo=UTC)),
        ("227.99", datetime(2026, 11, 30, 20, tzinfo=UTC)),
        ("228", None),
    ],
)
def test_a_budget_is_passed_in_the_hour_that_goes_beyond_it(budget, passes_at):
    assert at_end(budget).passes_at == passes_at


def test_the_upper_end_passes_it_earlier():
    end = at_end("228")

    # $128 at double rate: $16 today, $24 a day after: in the fifth day's eighth hour of work, $16 +
    # 4 × $24 + $16
    assert (end.passes_at, end.may_pass_at) == (None, datetime(2026, 11, 25, 17, tzinfo=UTC))


def test_weekdays_go_on_after_the_origin_and_the_clock_goes_back_with_an_hour_more():
    berlin = ZoneInfo("Europe/Berlin")
    week = [[float(day)] * 24 for day in range(7)]
    # Friday the 23rd is day 0
    origin = datetime(2026, 10, 22, 22, tzinfo=UTC)
    outlook = Outlook(origin=origin, usd_per_hour=week, low=[0.0] * 31, high=[0.0] * 31)
    rest = Interval(datetime(2026, 10, 24, 22, tzinfo=UTC), datetime(2026, 10, 25, 23, tzinfo=UTC))

    # Sunday the 25th is day 2 and has 25 hours
    assert at_end(spent="0", rest=rest, outlook=outlook, zone=berlin).end.expected_usd == 2.0 * 25


def test_midnight_within_a_utc_hour_cuts_it():
    kolkata = ZoneInfo("Asia/Kolkata")
    day = boundaries.days(
        Interval(datetime(2026, 11, 20, 12, tzinfo=UTC), datetime(2026, 11, 20, 13, tzinfo=UTC)),
        kolkata,
    )[0]

    found = cuts_of(day, kolkata)

    assert (found[0].interval.start, found[0].hour, found[0].length_h) == (
        datetime(2026, 11, 19, 18, 30, tzinfo=UTC),
        0,
        0.5,
    )
    assert len(found) == 25
    assert lengths([day], kolkata).sum() == 24.0


@pytest.mark.parametrize(
    ("first", "length_h"), [(date(2026, 10, 25), 2.0), (date(2026, 3, 29), 0.0)]
)
def test_where_clocks_are_set_an_hour_comes_twice_or_not_at_all(first, length_h):
    berlin = ZoneInfo("Europe/Berlin")
    noon = datetime.combine(first, time(12), tzinfo=UTC)
    day = boundaries.days(Interval(noon, noon.replace(hour=13)), berlin)[0]

    assert lengths([day], berlin)[0, 2] == length_h
    assert (wall_hour(day, 2, berlin) is None) is (length_h == 0.0)


def test_a_month_begins_and_ends_at_the_zones_midnight():
    found = month(date(2026, 10, 1), ZoneInfo("Europe/Berlin"))

    assert found == Interval(
        datetime(2026, 9, 30, 22, tzinfo=UTC), datetime(2026, 10, 31, 23, tzinfo=UTC)
    )


@pytest.mark.parametrize(
    ("low", "high", "skew"),
    [(16, 28, ""), (16, 29, "up"), (10, 25, ""), (10, 24, "down")],
)
def test_a_range_is_skewed_where_it_reaches_more_than_twice_as_far_on_one_side(low, high, skew):
    assert Step(REST.end, 20, low, high).skew == skew


@pytest.mark.parametrize(
    ("spent", "budget", "end", "expected"),
    [
        ("10", None, Step(REST.end, 20, 15, 30), NO_BUDGET),
        ("10", "9.99", None, OVER),
        ("10", "10", None, UNKNOWN),
        ("10", "19.99", Step(REST.end, 20, 15, 30), WILL_EXCEED),
        ("10", "20", Step(REST.end, 20, 15, 30), MAY_EXCEED),
        ("10", "30", Step(REST.end, 20, 15, 30), WITHIN),
    ],
)
def test_a_risk_is_named_by_what_was_spent_and_what_is_expected(spent, budget, end, expected):
    assert risk(Decimal(spent), None if budget is None else Decimal(budget), end) == expected


@pytest.mark.parametrize(
    ("spent", "end", "expected"),
    [
        ("30.01", None, OVER),
        ("10", Step(REST.end, 31, 15, 40), WILL_EXCEED),
        ("10", Step(REST.end, 20, 15, 31), MAY_EXCEED),
        ("10", Step(REST.end, 20, 15, 30), PARTIAL),
        ("10", None, PARTIAL),
    ],
)
def test_a_month_recorded_in_part_is_never_within_its_budget(spent, end, expected):
    assert risk(Decimal(spent), Decimal(30), end, is_partial=True) == expected
