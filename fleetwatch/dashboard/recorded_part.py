"""How much of a period is recorded, and since when."""

from datetime import datetime

from fleetwatch.dashboard.drawing.spending import recorded_since
from fleetwatch.dashboard.period import Period
from fleetwatch.dashboard.showing import Context
from fleetwatch.diagnosis.findings.inbox import Inbox
from fleetwatch.lib.intervals import DAY_MS, HOUR_MS, to_ms

LEAST_DAYS = 3  # from which on days are counted, and hours of what is shorter


def record_of(period: Period, capacity_ms: int) -> Context:
    """Since when the period is recorded, None where all of it is; whether any of it is, and how
    much in words. What has capacity before the first GPU was recorded all the same.
    """
    start = period.interval.start
    since = recorded_since(period)
    if since >= period.so_far.end and capacity_ms:
        since = start
    return {
        "recorded_since": since if since > start else None,
        "is_recorded": since < period.so_far.end,
        "recorded_part": _part(period, since),
    }


def record_of_findings(every: Inbox, period: Period) -> Context:
    """The same of a list of findings: what has some is recorded, and so is what reaches to now."""
    if every.counts() or period.interval.end >= period.minute:
        return {"is_recorded": True}
    return record_of(period, 0)


def _part(period: Period, since: datetime) -> str:
    """ "14 of 30 days recorded"; "" where all is, or less than a day (an hour) of it is missing."""
    interval = period.interval
    over = period.so_far
    is_days = interval.duration_ms >= LEAST_DAYS * DAY_MS
    unit, unit_ms = ("days", DAY_MS) if is_days else ("hours", HOUR_MS)
    recorded_ms = max(0, over.end_ms - to_ms(since))
    if over.duration_ms - recorded_ms < unit_ms:
        return ""
    count = round(recorded_ms / unit_ms)
    return f"{count:,} of {round(interval.duration_ms / unit_ms):,} {unit} recorded"
