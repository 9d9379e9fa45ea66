"""Months of the organisation: from its midnight on the 1st to the next 1st's, or as far as the
running one has come. Pure.
"""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from fleetwatch.lib.intervals import Interval

_NAME = re.compile(r"(20\d\d|21\d\d)-(0[1-9]|1[0-2])")


@dataclass(frozen=True, slots=True)
class Month:
    """A month, or the days of it that are over; and the days that it is compared with."""

    name: str  # 2026-10
    interval: Interval
    previous: Interval  # the month before, up to the same day where this one is still running
    is_over: bool


def month(name: str, *, now: datetime, zone: ZoneInfo) -> Month:
    """The month of that name.

    Raises ValueError where it is no month, or none of its days is over.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"a month is called 2026-10, not {name!r}")
    first = date(int(name[:4]), int(name[5:]), 1)
    after, today = _next(first), now.astimezone(zone).date()
    until = min(after, today)
    if until <= first:
        raise ValueError(f"no day of {name} is over yet")
    before = _before(first)
    until_before = first if until == after else min(first, before + (until - first))
    return Month(
        name=name,
        interval=Interval(_midnight(first, zone), _midnight(until, zone)),
        previous=Interval(_midnight(before, zone), _midnight(until_before, zone)),
        is_over=until == after,
    )


def start(name: str, zone: ZoneInfo) -> datetime:
    """The midnight that begins a month that month() took."""
    return _midnight(date(int(name[:4]), int(name[5:]), 1), zone)


def names(first: datetime, *, now: datetime, zone: ZoneInfo) -> list[str]:
    """The months from the one of `first` on of which a day is over, the newest first."""
    day, found = first.astimezone(zone).date().replace(day=1), []
    while day < now.astimezone(zone).date():
        found.append(f"{day:%Y-%m}")
        day = _next(day)
    return found[::-1]


def last_full(now: datetime, zone: ZoneInfo) -> str:
    """The name of the month that was over last."""
    return f"{_before(now.astimezone(zone).date().replace(day=1)):%Y-%m}"


def _next(first: date) -> date:
    return (first + timedelta(days=31)).replace(day=1)


def _before(first: date) -> date:
    return (first - timedelta(days=1)).replace(day=1)


def _midnight(day: date, zone: ZoneInfo) -> datetime:
    return datetime.combine(day, time.min, tzinfo=zone).astimezone(UTC)
