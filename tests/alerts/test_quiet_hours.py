from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from fleetwatch.alerts.messaging.quiet_hours import Gate, Habits, day_start, next_morning, passage
from fleetwatch.alerts.weekly_hours import Hours

BERLIN = ZoneInfo("Europe/Berlin")
KOLKATA = ZoneInfo("Asia/Kolkata")  # UTC+5:30, without summer time
NIGHT = Hours(time(22), time(7), "Europe/Berlin")


def berlin(*moment: int, fold: int = 0) -> datetime:
    return datetime(*moment, tzinfo=BERLIN, fold=fold).astimezone(UTC)


def habits(quiet: Hours | None = NIGHT, cap: int = 3, zone: ZoneInfo = BERLIN) -> Habits:
    return Habits(zone, quiet, cap)


def gate(now: datetime, *, had: int = 0, is_critical: bool = False, of: Habits | None = None):
    where = passage(of or habits(), now, is_critical=is_critical, had_today=had)
    return where.gate, where.due_at


@pytest.mark.parametrize(
    ("moment", "is_held"),
    [
        ((2026, 11, 20, 21, 59), False),
        ((2026, 11, 20, 22, 0), True),
        ((2026, 11, 21, 0, 0), True),
        ((2026, 11, 21, 6, 59), True),
        ((2026, 11, 21, 7, 0), False),
    ],
)
def test_in_quiet_hours_a_message_is_held_until_they_end(moment, is_held):
    now = berlin(*moment)

    held = (Gate.HOLD, berlin(2026, 11, 21, 7, 0))
    assert gate(now) == (held if is_held else (Gate.SEND, now))


def test_what_is_critical_breaks_quiet_hours_and_the_days_cap():
    now = berlin(2026, 11, 21, 3)

    assert gate(now, is_critical=True, had=100) == (Gate.SEND, now)


@pytest.mark.parametrize(("had", "what"), [(2, Gate.SEND), (3, Gate.CAP), (4, Gate.CAP)])
def test_what_is_too_much_for_a_day_is_held_until_the_next_morning(had, what):
    now = berlin(2026, 11, 20, 12)

    due = berlin(2026, 11, 21, 8) if what == Gate.CAP else now
    assert gate(now, had=had) == (what, due)


def test_the_next_morning_is_not_in_quiet_hours():
    late_riser = habits(Hours(time(22), time(10), "Europe/Berlin"))

    assert next_morning(late_riser, berlin(2026, 11, 20, 12)) == berlin(2026, 11, 21, 10)


def test_no_message_at_all_a_day_is_all_in_the_morning():
    assert gate(berlin(2026, 11, 20, 12), of=habits(cap=0))[0] == Gate.CAP


@pytest.mark.parametrize(
    ("day", "end", "hours"),
    [
        # summer time begins at 02:00 on 29 March 2026, ends at 03:00 on 25 October
        (28, berlin(2026, 3, 29, 7), 8),
        (27, berlin(2026, 3, 28, 7), 9),
    ],
)
def test_the_night_that_summer_time_begins_is_an_hour_shorter(day, end, hours):
    begin = berlin(2026, 3, day, 22)

    assert gate(begin) == (Gate.HOLD, end)
    assert end - begin == timedelta(hours=hours)


def test_the_night_that_summer_time_ends_is_an_hour_longer():
    begin = berlin(2026, 10, 24, 22)

    assert gate(begin) == (Gate.HOLD, berlin(2026, 10, 25, 7))
    assert berlin(2026, 10, 25, 7) - begin == timedelta(hours=10)


def test_an_end_that_comes_twice_is_never_before_now():
    short = habits(Hours(time(22), time(2, 30), "Europe/Berlin"))
    first = berlin(2026, 10, 25, 2, 10)
    second = berlin(2026, 10, 25, 2, 10, fold=1)

    assert gate(first, of=short) == (Gate.HOLD, berlin(2026, 10, 25, 2, 30))
    assert gate(second, of=short) == (Gate.HOLD, berlin(2026, 10, 25, 2, 30, fold=1))
    assert second - first == timedelta(hours=1)


def test_an_end_that_summer_time_leaves_out_is_after_the_jump():
    short = habits(Hours(time(22), time(2, 30), "Europe/Berlin"))

    assert gate(berlin(2026, 3, 29, 1, 59), of=short) == (Gate.HOLD, berlin(2026, 3, 29, 3, 30))
    assert gate(berlin(2026, 3, 29, 3, 0), of=short)[0] == Gate.SEND


def test_whoever_is_elsewhere_sleeps_at_another_time():
    night = habits(Hours(time(22), time(7), "Asia/Kolkata"), zone=KOLKATA)

    assert gate(datetime(2026, 10, 24, 16, 29, tzinfo=UTC), of=night)[0] == Gate.SEND
    assert gate(datetime(2026, 10, 24, 16, 30, tzinfo=UTC), of=night) == (
        Gate.HOLD,
        datetime(2026, 10, 25, 1, 30, tzinfo=UTC),
    )


def test_a_day_begins_at_the_persons_midnight():
    now = datetime(2026, 10, 25, 20, tzinfo=UTC)

    assert day_start(habits(), now) == berlin(2026, 10, 25)
    assert day_start(habits(zone=KOLKATA), now) == datetime(2026, 10, 25, 18, 30, tzinfo=UTC)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Asia/Kolkata", "America/St_Johns"])
@pytest.mark.parametrize("ends", [time(0), time(2, 30), time(7)])
def test_what_is_held_is_due_later_and_then_the_hours_are_over(zone, ends):
    quiet = Hours(time(22), ends, zone)
    for hours in range(0, 24 * 365, 5):
        now = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=hours, minutes=hours % 60)
        if quiet.hold(now):
            end = quiet.end_after(now)
            assert now < end <= now + timedelta(hours=26)
            assert not quiet.hold(end)
