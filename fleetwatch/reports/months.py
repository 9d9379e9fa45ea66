"""Months of the organisation: from its midnight on the 1st to the next 1st's, or as far as the
running one has come. Pure.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from fleetwatch.figures import boundaries
from fleetwatch.lib.intervals import Interval

DAY = timedelta(days=1)
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
    whole = boundaries.month(start(name, zone), zone)
    until = min(whole.end, boundaries.midnight(now, zone))
    if until <= whole.start:
        raise ValueError(f"no day of {name} is over yet")
    before = boundaries.month(whole.start - DAY, zone)
    is_over = until == whole.end
    days = until.astimezone(zone).day - 1
    same_day = whole.start if is_over else boundaries.midnight(before.start, zone, days=days)
    return Month(
        name=name,
        interval=Interval(whole.start, until),
        previous=Interval(before.start, min(whole.start, same_day)),
        is_over=is_over,
    )


def start(name: str, zone: ZoneInfo) -> datetime:
    """The midnight that begins a month that month() took."""
    return datetime.strptime(name, "%Y-%m").replace(tzinfo=zone).astimezone(UTC)


def names(first: datetime, *, now: datetime, zone: ZoneInfo) -> list[str]:
    """The months from the one of `first` on of which a day is over, the newest first."""
    begins = boundaries.month(first, zone).start
    today = boundaries.midnight(now, zone)
    by_age: list[str] = []
    while begins < today:
        by_age.append(name_at(begins, zone))
        begins = boundaries.month(begins, zone).end
    return by_age[::-1]


def last_full(now: datetime, zone: ZoneInfo) -> str:
    """The name of the month that was over last."""
    return name_at(boundaries.month(now, zone).start - DAY, zone)


def last_begun(now: datetime, zone: ZoneInfo) -> str:
    """The name of the newest month of which a day is over."""
    return name_at(boundaries.midnight(now, zone) - DAY, zone)


def name_at(moment: datetime, zone: ZoneInfo) -> str:
    """The name of the month that holds the moment."""
    return f"{moment.astimezone(zone):%Y-%m}"


def in_words(name: str) -> str:
    """A month's name as people say it: November 2026."""
    return f"{start(name, ZoneInfo('UTC')):%B %Y}"
