"""Numbers as messages say them: unit always there, unknown said as unknown. Pure."""

from datetime import datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

from fleetwatch.lib import memory_sizes

UNKNOWN = "unknown"
HOUR_MS = 3_600_000


def usd(amount: Decimal | None) -> str:
    """Dollars and cents, whole dollars from 1,000 on; None = unknown (no rate)."""
    if amount is None:
        return UNKNOWN
    return f"${amount:,.0f}" if abs(amount) >= 1000 else f"${amount:,.2f}"


def between(low: Decimal, high: Decimal) -> str:
    """A range of dollars; one amount where both ends read the same."""
    ends = usd(low), usd(high)
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def counted(count: int, singular: str, plural: str) -> str:
    """The number with its noun."""
    return f"{count:,} {singular if count == 1 else plural}"


def share(ratio: float | None) -> str:
    """A ratio of 0 to 1 as per cent; small ones keep two digits, so that 0.035 % is not "0 %"."""
    if ratio is None:
        return UNKNOWN
    percent = ratio * 100
    return f"{percent:.2g} %" if 0 < percent < 1 else f"{percent:.0f} %"


def change(now: Decimal | float | None, before: Decimal | float | None) -> str:
    """How much more or less than before, in per cent of before; says when there is nothing to
    compare with.
    """
    if now is None or before is None or not before:
        return "nothing to compare with"
    percent = float((Decimal(now) - Decimal(before)) / Decimal(before)) * 100
    return "unchanged" if abs(percent) < 0.5 else f"{percent:+.0f} %"


def points(now: float | None, before: float | None) -> str:
    """The difference of two ratios in percentage points."""
    if now is None or before is None:
        return "nothing to compare with"
    difference = (now - before) * 100
    return "unchanged" if abs(difference) < 0.05 else f"{difference:+.1f} points"


def gpu_hours(gpu_ms: int) -> str:
    """GPU-hours with one decimal below 100."""
    hours = gpu_ms / HOUR_MS
    return f"{hours:,.0f} GPU-h" if hours >= 100 else f"{hours:.1f} GPU-h"


def duration(length_ms: int) -> str:
    """Days, hours and minutes, two units at most; rounded down."""
    minutes = length_ms // 60_000
    days = minutes // 1440
    hours = minutes % 1440 // 60
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes % 60:02} m" if hours else f"{minutes} m"


def gigabytes(amount_bytes: float | None) -> str:
    """As on pages: "61 GB"; None = unknown."""
    return UNKNOWN if amount_bytes is None else memory_sizes.gigabytes(amount_bytes)


def moment(at: datetime, zone: ZoneInfo, *, now: datetime) -> str:
    """The time of day in the zone; with the date when that is not today."""
    local = at.astimezone(zone)
    is_today = local.date() == now.astimezone(zone).date()
    return (
        f"{local:%H:%M} {local.tzname()}"
        if is_today
        else f"{local:%Y-%m-%d %H:%M} {local.tzname()}"
    )
