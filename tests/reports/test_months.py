from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from fleetwatch.lib.intervals import Interval
from fleetwatch.reports.months import last_full, month, names

BERLIN, KOLKATA = ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Kolkata")
UTC_ZONE = ZoneInfo("UTC")
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def utc(*parts):
    return datetime(*parts, tzinfo=UTC)


def test_a_month_that_is_over_is_compared_with_the_whole_month_before():
    found = month("2026-10", now=NOW, zone=BERLIN)

    assert found.is_over
    # clocks went back on the 25th
    assert found.interval == Interval(utc(2026, 9, 30, 22), utc(2026, 10, 31, 23))
    assert found.previous == Interval(utc(2026, 8, 31, 22), utc(2026, 9, 30, 22))


def test_the_running_month_is_its_full_days_and_compared_with_as_many():
    found = month("2026-11", now=NOW, zone=KOLKATA)

    assert not found.is_over
    assert found.interval == Interval(utc(2026, 10, 31, 18, 30), utc(2026, 11, 19, 18, 30))
    assert found.previous == Interval(utc(2026, 9, 30, 18, 30), utc(2026, 10, 19, 18, 30))


def test_thirty_days_of_march_are_compared_with_all_of_february():
    assert month("2026-03", now=utc(2026, 3, 31, 1), zone=UTC_ZONE).previous == Interval(
        utc(2026, 2, 1), utc(2026, 3, 1)
    )


@pytest.mark.parametrize(
    "name",
    ["2026-13", "2026-1", "october", "", "2026-10-01", "９２０２６-10", "2026-12", "2026-11\n"],
)
def test_what_is_no_month_or_not_begun_is_refused(name):
    with pytest.raises(ValueError, match="month|over yet"):
        month(name, now=NOW, zone=UTC_ZONE)


def test_on_the_first_no_day_of_the_month_is_over():
    first = utc(2026, 12, 1, 3)

    assert names(utc(2026, 9, 17), now=first, zone=UTC_ZONE) == ["2026-11", "2026-10", "2026-09"]
    assert names(utc(2026, 11, 30), now=utc(2026, 12, 2), zone=UTC_ZONE) == ["2026-12", "2026-11"]
    assert last_full(first, UTC_ZONE) == "2026-11"
    assert last_full(utc(2027, 1, 1, 0), UTC_ZONE) == "2026-12"
