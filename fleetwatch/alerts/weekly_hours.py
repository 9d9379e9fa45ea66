"""Hours of the week in a time zone: when a rule tells, a maintenance window holds, a person wants
quiet. Pure; wall-clock time, so 08:00 is 08:00 on both sides of a change to summer time.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import msgspec

from fleetwatch.lib.refusal import RefusedFieldError

WEEK = tuple(range(7))
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@dataclass(frozen=True, slots=True)
class Hours:
    """From one time of day until another one on these days (0 = Monday), until the next day where
    it ends before it begins, and the whole day where both are the same.
    """

    starts: time
    ends: time
    zone: str = "UTC"
    days: tuple[int, ...] = WEEK

    @property
    def text(self) -> str:
        """In words: "Mon, Tue 08:00 to 18:00 Europe/Berlin"."""
        days = "" if self.days == WEEK else ", ".join(DAYS[day] for day in self.days) + " "
        return f"{days}{self.starts:%H:%M} to {self.ends:%H:%M} {self.zone}"

    def hold(self, moment: datetime) -> bool:
        """Whether the moment lies in them; the end does not."""
        local = moment.astimezone(ZoneInfo(self.zone))
        clock = local.time()
        today = local.weekday()
        yesterday = (today - 1) % 7
        if self.starts < self.ends:
            return today in self.days and self.starts <= clock < self.ends
        is_evening = today in self.days and clock >= self.starts
        is_morning = yesterday in self.days and clock < self.ends
        return is_evening or is_morning

    def end_after(self, moment: datetime) -> datetime:
        """When the hours that the moment lies in end, in UTC; never before it. An end that a change
        to summer time leaves out is as long after the jump as it would be after its beginning.
        """
        zone = ZoneInfo(self.zone)
        local = moment.astimezone(zone)
        clock = local.time()
        day = local.date() if clock < self.ends else local.date() + timedelta(days=1)
        end = datetime.combine(day, self.ends, zone)
        if end.astimezone(UTC) <= moment:  # it comes twice, when summer time ends
            end = end.replace(fold=1)
        return end.astimezone(UTC)


def stored(row: Any) -> Hours | None:
    """The hours of a JSON column; None where it is empty: always."""
    return msgspec.convert(row, Hours) if row else None


def check(hours: Hours | None) -> None:
    """Raises RefusedFieldError."""
    if hours is None:
        return
    if hours.zone not in available_timezones():
        raise RefusedFieldError(f"{hours.zone[:60]!r} is no time zone", field="zone")
    if hours.starts.tzinfo or hours.ends.tzinfo:
        raise RefusedFieldError("Times of day have no zone of their own", field="starts")
    if not hours.days or not set(hours.days) <= set(WEEK):
        raise RefusedFieldError("Days are 0 (Monday) to 6 (Sunday), one at least", field="days")
