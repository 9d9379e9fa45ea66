"""Where steps of time begin and end, by hand: the zone's weeks and months over a change of clocks."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from fleetwatch.figures.boundaries import beginning, following, steps
from fleetwatch.lib.intervals import Interval

BERLIN = ZoneInfo("Europe/Berlin")


def utc(*moment):
    return datetime(*moment, tzinfo=UTC)


# Berlin's clocks go back on Sunday, 25 October 2026: that week has 169 hours
@pytest.mark.parametrize(
    ("step", "start", "end"),
    [
        ("hour", utc(2026, 10, 25, 22), utc(2026, 10, 25, 23)),
        ("day", utc(2026, 10, 24, 22), utc(2026, 10, 25, 23)),
        ("week", utc(2026, 10, 18, 22), utc(2026, 10, 25, 23)),
        ("month", utc(2026, 9, 30, 22), utc(2026, 10, 31, 23)),
    ],
)
def test_a_step_holds_its_moment_and_ends_where_the_next_begins(step, start, end):
    last_millisecond = utc(2026, 10, 25, 22, 59, 59)

    assert beginning(last_millisecond, step, BERLIN) == start
    assert beginning(start, step, BERLIN) == start
    assert following(start, step, BERLIN) == end
    touched = Interval(last_millisecond, end.replace(minute=1))
    assert steps(touched, step, BERLIN) == [start, end]
