"""Whether a person is told now, when his quiet hours end, or the next morning. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from enum import Enum
from zoneinfo import ZoneInfo

from fleetwatch.alerts.weekly_hours import Hours

MORNING = time(8)  # when what was too much for a day is told


class Gate(Enum):
    """What becomes of a message to a person."""

    SEND = "send"
    HOLD = "hold"
    CAP = "cap"


@dataclass(frozen=True, slots=True)
class Habits:
    """How a person wants to hear of things: when not (None: whenever), and how often a day."""

    zone: ZoneInfo
    quiet: Hours | None
    daily_cap: int


@dataclass(frozen=True, slots=True)
class Passage:
    """What becomes of a message, and when it is due."""

    gate: Gate
    due_at: datetime


def passage(habits: Habits, now: datetime, *, is_critical: bool, had_today: int | None) -> Passage:
    """What becomes of a message of this moment; what is critical is always told at once.
    `had_today` None: it is none of those that are counted.
    """
    if is_critical:
        return Passage(Gate.SEND, now)
    if habits.quiet is not None and habits.quiet.hold(now):
        return Passage(Gate.HOLD, habits.quiet.end_after(now))
    if had_today is not None and had_today >= habits.daily_cap:
        return Passage(Gate.CAP, next_morning(habits, now))
    return Passage(Gate.SEND, now)


def day_start(habits: Habits, now: datetime) -> datetime:
    """The person's last midnight."""
    local = now.astimezone(habits.zone)
    return local.replace(hour=0, minute=0, second=0, microsecond=0, fold=0).astimezone(UTC)


def next_morning(habits: Habits, now: datetime) -> datetime:
    """At eight on the person's next day, or when quiet hours that hold then end."""
    tomorrow = now.astimezone(habits.zone).date() + timedelta(days=1)
    morning = datetime.combine(tomorrow, MORNING, habits.zone).astimezone(UTC)
    if habits.quiet is not None and habits.quiet.hold(morning):
        return habits.quiet.end_after(morning)
    return morning
