"""Months, days and hours of the organisation's zone, for what repeats by weekday and hour. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from fleetwatch.figures import boundaries
from fleetwatch.lib.intervals import Interval

HOURS = 24  # of the clock on the wall: on two days a year one is missing or comes twice
HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Cut:
    """A part of a day that lies in one UTC hour, and the hour on the wall in which it begins."""

    interval: Interval
    hour: int

    @property
    def length_h(self) -> float:
        return (self.interval.end - self.interval.start) / HOUR


@lru_cache(maxsize=2048)
def cuts_of(day: Interval, zone: ZoneInfo) -> tuple[Cut, ...]:
    """The day's cuts of the ledger in order: 23 to 26, because midnight may lie within a
    UTC hour.
    """
    parts = [
        Interval(max(start, day.start), min(start + HOUR, day.end))
        for start in boundaries.steps(day, "hour", zone)
    ]
    return tuple(Cut(part, part.start.astimezone(zone).hour) for part in parts)


def lengths(days: Sequence[Interval], zone: ZoneInfo) -> NDArray[np.float64]:
    """Hours that each hour on the wall lasts, days × 24: 1, but 0 or 2 where clocks are set."""
    hours = np.zeros((len(days), HOURS))
    for row, day in enumerate(days):
        for cut in cuts_of(day, zone):
            hours[row, cut.hour] += cut.length_h
    return hours


def wall_hour(day: Interval, hour: int, zone: ZoneInfo) -> Interval | None:
    """When it was that hour on the wall; None where clocks were set over it."""
    parts = [cut.interval for cut in cuts_of(day, zone) if cut.hour == hour]
    return Interval(parts[0].start, parts[-1].end) if parts else None


def month(first: date, zone: ZoneInfo) -> Interval:
    """The month that begins on this day."""
    return boundaries.month(datetime.combine(first, time(12), tzinfo=zone), zone)


def month_of(moment: datetime, zone: ZoneInfo) -> date:
    """The first day of the moment's month."""
    return moment.astimezone(zone).date().replace(day=1)


def following(first: date) -> date:
    """The first day of the month after."""
    return (first + timedelta(days=31)).replace(day=1)


def previous(first: date) -> date:
    """The first day of the month before."""
    return (first - timedelta(days=1)).replace(day=1)
