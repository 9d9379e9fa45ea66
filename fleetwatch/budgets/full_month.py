"""What a full month costs at the pace of a month that is recorded in part. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from fleetwatch.lib.intervals import Interval

DAY = timedelta(days=1)
LEAST = DAY  # of less a day's ups and downs are the pace
SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class FullMonth:
    """Dollars of as many days as the month has, at so many a day, and when the next month would
    pass the same budget; None: it would not, or there is none.
    """

    usd: Decimal
    usd_per_day: Decimal  # the mean of what is recorded
    passes_at: datetime | None


def full_month(
    spent_usd: Decimal, recorded: Interval, month: Interval, *, budget_usd: Decimal | None
) -> FullMonth | None:
    """At what the recorded part of the month cost on the mean; None of less than a day of it."""
    length = recorded.end - recorded.start
    if length < LEAST or not spent_usd:
        return None
    whole = month.end - month.start
    usd = spent_usd * (whole // SECOND) / (length // SECOND)
    usd_per_day = spent_usd * (DAY // SECOND) / (length // SECOND)
    if budget_usd is None or budget_usd >= usd:
        return FullMonth(usd, usd_per_day, None)
    return FullMonth(usd, usd_per_day, month.end + whole * float(budget_usd / usd))
