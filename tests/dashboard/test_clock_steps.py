"""Equal steps by the wall clock of a zone."""

from datetime import UTC
from zoneinfo import ZoneInfo

import pytest

from fleetwatch.dashboard.drawing.clock_steps import ClockSteps, local, texts_of
from fleetwatch.lib.intervals import DAY_MS, HOUR_MS

BERLIN = ZoneInfo("Europe/Berlin")
SUMMER_MS = 1_795_132_800_000 - 120 * DAY_MS  # 2026-07-23 00:00 UTC
CHANGE_MS = 1_792_890_000_000 - HOUR_MS  # 2026-10-25 00:00 UTC: at 1:00 the clock there goes back


def test_they_are_the_moments_around_each_step():
    steps = ClockSteps(SUMMER_MS, HOUR_MS, 3, UTC)

    assert [moment.hour for moment in steps] == [0, 1, 2, 3]
    assert steps[-1] - steps[0] == 3 * (steps[1] - steps[0])
    assert steps[:-1] == list(steps)[:3]


@pytest.mark.parametrize(
    ("first_ms", "step_ms", "count"),
    [
        (SUMMER_MS, 300_000, 288),
        (CHANGE_MS - HOUR_MS, HOUR_MS, 4),  # an hour is there twice
        (SUMMER_MS, DAY_MS, 365),  # the clock is the same at both ends, and was set in between
    ],
)
def test_texts_are_those_of_each_moment(first_ms, step_ms, count):
    steps = local(ClockSteps(first_ms, step_ms, count, UTC), BERLIN)

    assert texts_of(steps) == [moment.isoformat()[:19] for moment in steps]
    assert texts_of(list(steps)) == texts_of(steps)


def test_moments_that_are_no_equal_steps_are_told_one_by_one():
    moments = [*ClockSteps(SUMMER_MS, HOUR_MS, 1, UTC), *ClockSteps(SUMMER_MS, DAY_MS, 1, UTC)[1:]]

    assert texts_of(local(moments, BERLIN)) == [
        "2026-07-23T02:00:00",
        "2026-07-23T03:00:00",
        "2026-07-24T02:00:00",
    ]
