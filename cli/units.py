"""Dollars, hours, shares and moments as people read them; what is not known is a dash."""

from datetime import datetime, timezone
from typing import Any, Optional

UNKNOWN = "–"


def money(usd: Optional[float]) -> str:
    """$1,234.50; of less than a cent that it is so."""
    if usd is None:
        return UNKNOWN
    if 0 < abs(usd) < 0.005:
        return "<$0.01" if usd > 0 else ">-$0.01"
    return "%s$%s" % ("-" if usd < 0 else "", format(abs(usd), ",.2f"))


def money_range(low: float, high: float) -> str:
    return money(low) if money(low) == money(high) else "%s–%s" % (money(low), money(high))


def hours(gpu_hours: Optional[float]) -> str:
    return UNKNOWN if gpu_hours is None else format(gpu_hours, ",.1f")


def hours_of_ms(gpu_ms: int) -> str:
    return hours(gpu_ms / 3_600_000)


def percent(share: Optional[float]) -> str:
    return UNKNOWN if share is None else "%.0f %%" % (share * 100)


def moment(text: Optional[str]) -> str:
    """ISO 8601 as 2026-11-26 20:30 (UTC)."""
    if not text:
        return UNKNOWN
    at = datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(timezone.utc)
    return at.strftime("%Y-%m-%d %H:%M")


def period(answer: Any) -> str:
    """What the figures of an answer are of."""
    return "%s to %s UTC" % (moment(answer["from"]), moment(answer["covered_to"]))
