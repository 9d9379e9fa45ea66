"""How much of a period is recorded, in words."""

from fleetwatch.dashboard.drawing.spending import recorded_since
from fleetwatch.dashboard.period import Period
from fleetwatch.lib.intervals import DAY_MS, HOUR_MS, to_ms

LEAST_DAYS = 3  # from which on days are counted, and hours of what is shorter


def recorded_part(period: Period) -> str:
    """ "14 of 30 days recorded"; "" where all is, or less than a day (an hour) of it is missing."""
    interval = period.interval
    over = period.so_far
    is_days = interval.duration_ms >= LEAST_DAYS * DAY_MS
    unit, unit_ms = ("days", DAY_MS) if is_days else ("hours", HOUR_MS)
    recorded_ms = max(0, over.end_ms - to_ms(recorded_since(period)))
    if over.duration_ms - recorded_ms < unit_ms:
        return ""
    recorded = round(recorded_ms / unit_ms)
    return f"{recorded:,} of {round(interval.duration_ms / unit_ms):,} {unit} recorded"
