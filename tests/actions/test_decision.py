"""The ladder as a table: what is known, what was done, and what comes next."""

from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal

import pytest

from fleetwatch.actions.awake import awake_for
from fleetwatch.actions.decision import (
    FRESH_MS,
    Course,
    LastHour,
    Limits,
    Standing,
    Step,
    is_interrupted,
    next_step,
)
from fleetwatch.alerts.weekly_hours import Hours

NOW_MS = 1_800_000_000_000
WAIT = timedelta(minutes=60)
LIMITS = Limits(
    first_wait=WAIT,
    second_wait=2 * WAIT,
    max_per_hour=2,
    max_usd_per_hour=Decimal(10),
)
STANDING = Standing(
    fires=True,
    until_ms=NOW_MS,
    muted="",
    is_acknowledged=False,
    refusals=("", ""),
    usd_per_hour=Decimal(4),
    is_reached=True,
    is_quiet=False,
)
BEGUN = Course(has_begun=True, heard=WAIT)
TWICE = Course(has_begun=True, heard=3 * WAIT, is_warned_again=True, heard_again=2 * WAIT)
INSTANT = timedelta(microseconds=1)


def step(standing=STANDING, course=TWICE, last_hour=None, limits=LIMITS) -> Step:
    return next_step(standing, course, limits, last_hour or LastHour(), now_ms=NOW_MS).step


@pytest.mark.parametrize(
    ("course", "expected"),
    [
        (Course(), Step.WARN),
        (Course(rests="it was acted on already"), Step.NOTHING),
        (Course(has_begun=True), Step.NOTHING),  # the warning has not arrived
        (replace(BEGUN, heard=WAIT - INSTANT), Step.NOTHING),
        (BEGUN, Step.WARN_AGAIN),
        (replace(BEGUN, heard=WAIT + INSTANT), Step.WARN_AGAIN),
        (replace(TWICE, heard_again=None), Step.NOTHING),
        (replace(TWICE, heard_again=2 * WAIT - INSTANT), Step.NOTHING),
        (TWICE, Step.ACT),
        (replace(TWICE, heard=None), Step.NOTHING),
    ],
)
def test_two_warnings_that_arrived_and_the_time_after_each(course, expected):
    assert step(course=course) == expected


NEVER = [
    {"fires": False},
    {"muted": "snoozed until 12:00"},
    {"is_acknowledged": True},
    {"refusals": ("", "its team is not on the policy's list")},
    {"usd_per_hour": None},
    {"is_reached": False},
]


@pytest.mark.parametrize("fields", NEVER)
def test_what_forbids_to_act_ends_a_ladder_and_begins_none(fields):
    standing = replace(STANDING, **fields)

    assert step(standing) == Step.END
    assert step(standing, BEGUN) == Step.END
    assert step(standing, Course()) == Step.NOTHING


@pytest.mark.parametrize("course", [Course(), BEGUN, TWICE])
@pytest.mark.parametrize("fields", [{"until_ms": NOW_MS - FRESH_MS - 1}, {"is_quiet": True}])
def test_old_telemetry_and_quiet_hours_wait(fields, course):
    assert step(replace(STANDING, **fields), course) == Step.NOTHING


def test_telemetry_is_fresh_up_to_five_minutes():
    assert step(replace(STANDING, until_ms=NOW_MS - FRESH_MS)) == Step.ACT


@pytest.mark.parametrize(
    ("count", "usd", "expected"),
    [
        (1, "6", Step.ACT),
        (1, "6.000001", Step.NOTHING),  # with its own $4 more than $10
        (2, "0", Step.NOTHING),
        (3, "0", Step.NOTHING),
    ],
)
def test_what_was_done_within_the_hour_limits_what_is_done(count, usd, expected):
    assert step(last_hour=LastHour(count, Decimal(usd))) == expected


def test_a_limit_holds_up_no_warning():
    assert step(course=BEGUN, last_hour=LastHour(2, Decimal(10))) == Step.WARN_AGAIN


@pytest.mark.parametrize(
    ("since", "expected"), [(None, True), (1001, True), (1000, False), (999, False)]
)
def test_it_was_so_since_it_was_warned_of(since, expected):
    assert is_interrupted(since, needed_since_ms=1000) == expected


def test_who_is_warned_is_said():
    standing = replace(STANDING, owner="who runs the fleet")

    def why(**fields) -> str:
        return next_step(
            replace(standing, **fields), BEGUN, replace(LIMITS, first_wait=2 * WAIT), LastHour(),
            now_ms=NOW_MS,
        ).why  # fmt: skip

    assert why() == "who runs the fleet was warned and has time to answer"
    assert why(is_reached=False) == "who runs the fleet can't be warned"


NIGHT = Hours(time(22), time(7), "Europe/Berlin")
EIGHT_PM = datetime(2026, 11, 20, 19, tzinfo=UTC)  # in Berlin


@pytest.mark.parametrize(
    ("minutes", "awake"),
    [
        (0, 0),
        (-5, 0),
        (119, 119),
        (120, 120),
        (121, 120),  # 22:01
        (660, 120),  # 07:00
        (661, 121),
        (720, 180),
    ],
)
def test_a_night_does_not_count(minutes, awake):
    now = EIGHT_PM + timedelta(minutes=minutes)

    assert awake_for(NIGHT, EIGHT_PM, now) == timedelta(minutes=awake)


def test_who_has_no_quiet_hours_is_awake():
    assert awake_for(None, EIGHT_PM, EIGHT_PM + timedelta(days=30)) == timedelta(days=30)


def test_who_is_always_quiet_never_is():
    always = Hours(time(8), time(8))

    assert awake_for(always, EIGHT_PM, EIGHT_PM + timedelta(days=3)) == timedelta()


def test_the_hour_that_comes_twice_is_two():
    """25 October 2026 in Berlin: 03:00 is 02:00 again."""
    evening = Hours(time(22), time(1), "Europe/Berlin")
    one = datetime(2026, 10, 24, 23, tzinfo=UTC)  # 01:00

    assert awake_for(evening, one, one + timedelta(hours=4)) == timedelta(hours=4)
