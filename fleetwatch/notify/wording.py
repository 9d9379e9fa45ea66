"""Numbers as messages say them: rounded as on pages, what is not known said as unknown. Pure."""

from datetime import datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

from fleetwatch.lib import memory_sizes, rounding
from fleetwatch.lib.intervals import HOUR_MS

UNKNOWN = "unknown"


def usd(amount: Decimal | None) -> str:
    """Dollars as pages round them; None = unknown (no rate)."""
    return UNKNOWN if amount is None else rounding.usd(amount)


def about(amount: Decimal | None) -> str:
    """Dollars that nobody spent yet, as pages round them; None = unknown."""
    return UNKNOWN if amount is None else rounding.about(amount)


def about_over(expected: Decimal, limit: Decimal) -> str:
    """By how much what is expected is over the limit: that which about() says of it, so that both
    are one sum; what that rounds away as it is.
    """
    rounded = rounding.rounded_about(expected) - limit
    return usd(rounded) if rounded > 0 else about(expected - limit)


def between(low: Decimal, high: Decimal) -> str:
    """A saving as a range, as pages round it; one amount where both ends are one."""
    return rounding.roughly(low, high)


def counted(count: int, singular: str, plural: str) -> str:
    """The number with its noun."""
    return f"{count:,} {singular if count == 1 else plural}"


def all_of(count: int) -> str:
    """ "both" of two, "all 3"."""
    return "both" if count == 2 else f"all {count:,}"


def share(ratio: float | None) -> str:
    """A ratio as per cent, as pages round it: what is not all is never 100 %; None = unknown."""
    return UNKNOWN if ratio is None else rounding.percent(ratio)


def change(now: Decimal | float | None, before: Decimal | float | None) -> str:
    """How much more or less than before, in per cent of before; "" = there is nothing to compare
    with.
    """
    if now is None or before is None or not before:
        return ""
    percent = float((Decimal(now) - Decimal(before)) / Decimal(before)) * 100
    return "unchanged" if abs(percent) < 0.5 else f"{percent:+.0f} %"


def points(now: float | None, before: float | None) -> str:
    """The difference of two ratios in percentage points; "" = there is nothing to compare with."""
    if now is None or before is None:
        return ""
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


def brief(length_ms: int) -> str:
    """As duration() has it; of less than a minute the seconds."""
    return duration(length_ms) if length_ms >= 60_000 else f"{max(length_ms // 1000, 1)} s"


def part_of(part_ms: int, whole_ms: int, *, gpus: int) -> str:
    """ "5 h 10 m of 6 h 02 m"; of several GPUs in GPU-hours."""
    if gpus > 1:
        return f"{part_ms / HOUR_MS:.1f} of {whole_ms / HOUR_MS:.1f} GPU-hours"
    part = duration(part_ms)
    whole = duration(whole_ms)
    return f"nearly all of {whole}" if part == whole else f"{part} of {whole}"


def gigabytes(amount_bytes: float | None) -> str:
    """As on pages: "61 GB"; None = unknown."""
    return UNKNOWN if amount_bytes is None else memory_sizes.gigabytes(amount_bytes)


def dated(at: datetime, zone: ZoneInfo, *, now: datetime) -> str:
    """As moment(), with the day as pages write it."""
    local = at.astimezone(zone)
    is_today = local.date() == now.astimezone(zone).date()
    return moment(at, zone, now=now) if is_today else f"{local:%a %-d %b, %H:%M} {local.tzname()}"


def moment(at: datetime, zone: ZoneInfo, *, now: datetime) -> str:
    """The time of day in the zone; with the date, as pages have it, when that is not today."""
    local = at.astimezone(zone)
    is_today = local.date() == now.astimezone(zone).date()
    return (
        f"{local:%H:%M} {local.tzname()}"
        if is_today
        else f"{local:%a %-d %b, %H:%M} {local.tzname()}"
    )
