"""When a group of incidents is told again, or to the next ones: never more than one step at a time.
Pure.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum


class Due(Enum):
    """What is to be done about a group."""

    NOTHING = "nothing"
    OPEN = "open"
    CLIMB = "climb"
    REMIND = "remind"


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a group was told: `stepped_at` None: not at all. `is_pressing`: something of it
    fires, by telemetry that is there, that nobody acknowledged and nothing mutes.
    """

    is_pressing: bool
    stepped_at: datetime | None = None
    reminded_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Pace:
    """After how many minutes the next step is due, and a reminder; 0: never."""

    escalate_minutes: int
    remind_minutes: int


def due(standing: Standing, pace: Pace, *, has_next: bool, now: datetime) -> Due:
    """What is due; `has_next`: whether the ladder goes on."""
    if not standing.is_pressing:
        return Due.NOTHING
    if standing.stepped_at is None:
        return Due.OPEN
    if has_next and _is_over(standing.stepped_at, pace.escalate_minutes, now):
        return Due.CLIMB
    last = max(standing.stepped_at, standing.reminded_at or standing.stepped_at)
    return Due.REMIND if _is_over(last, pace.remind_minutes, now) else Due.NOTHING


def _is_over(since: datetime, minutes: int, now: datetime) -> bool:
    return minutes > 0 and now >= since + timedelta(minutes=minutes)
