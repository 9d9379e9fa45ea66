"""Where ledger entries are cut and rates may change: UTC hours and the organisation's midnights.

Pure.
"""

from datetime import UTC, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from fleetwatch.lib.intervals import Interval, ceil_hour, floor_hour


def midnight(moment: datetime, zone: ZoneInfo, *, days: int = 0) -> datetime:
    """The zone's midnight at or before the moment, `days` days later, in UTC."""
    day = moment.astimezone(zone).date() + timedelta(days=days)
    return datetime.combine(day, time.min, tzinfo=zone).astimezone(UTC)


def days_since(moment: datetime, zone: ZoneInfo, *, now: datetime) -> int:
    """How many of the zone's days began since the one that holds the moment: today's is not over,
    and counts for none.
    """
    days: int = (now.astimezone(zone).date() - moment.astimezone(zone).date()).days
    return days


def is_cut(moment: datetime, zone: ZoneInfo) -> bool:
    return moment in (floor_hour(moment), midnight(moment, zone))


def outward(interval: Interval, zone: ZoneInfo) -> Interval:
    """The smallest interval around this one whose ends are cuts."""
    start = max(floor_hour(interval.start), midnight(interval.start, zone))
    if is_cut(interval.end, zone):
        return Interval(start, interval.end.astimezone(UTC))
    return Interval(start, min(ceil_hour(interval.end), midnight(interval.end, zone, days=1)))


def steps(interval: Interval, step: str, zone: ZoneInfo) -> list[datetime]:
    """Starts of the UTC clock hours, or of the zone's days (23 to 25 h), weeks or months, that the
    interval touches, in order.
    """
    start = beginning(interval.start, step, zone)
    starts = []
    while start < interval.end:
        starts.append(start)
        start = following(start, step, zone)
    return starts


def beginning(moment: datetime, step: str, zone: ZoneInfo) -> datetime:
    """Where the hour, or the zone's day, week (from Monday) or month, begins that holds the
    moment.
    """
    match step:
        case "hour":
            return floor_hour(moment)
        case "week":
            return midnight(moment, zone, days=-moment.astimezone(zone).weekday())
        case "month":
            return month(moment, zone).start
    return midnight(moment, zone)


def following(start: datetime, step: str, zone: ZoneInfo) -> datetime:
    """Where the hour, or the zone's day, week or month, ends that begins then."""
    match step:
        case "hour":
            return start + timedelta(hours=1)
        case "week":
            return midnight(start, zone, days=7)
        case "month":
            return month(start, zone).end
    return midnight(start, zone, days=1)


def days(interval: Interval, zone: ZoneInfo) -> list[Interval]:
    """The zone's whole days (23 to 25 h) that the interval touches, in order."""
    return [
        Interval(start, midnight(start, zone, days=1)) for start in steps(interval, "day", zone)
    ]


def between(interval: Interval, zone: ZoneInfo) -> list[Interval]:
    """The ledger's cuts within the interval, in order: UTC clock hours, also cut at the zone's
    midnight; its ends are kept.
    """
    inner = {*steps(interval, "hour", zone), *steps(interval, "day", zone)}
    edges = [
        interval.start,
        *sorted(edge for edge in inner if interval.start < edge < interval.end),
        interval.end,
    ]
    return [Interval(start, end) for start, end in pairwise(edges)]


def month(moment: datetime, zone: ZoneInfo) -> Interval:
    """The zone's month that holds the moment."""
    first = moment.astimezone(zone).date().replace(day=1)
    following = (first + timedelta(days=31)).replace(day=1)
    start, end = (
        datetime.combine(day, time.min, tzinfo=zone).astimezone(UTC) for day in (first, following)
    )
    return Interval(start, end)
