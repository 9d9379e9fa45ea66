"""The way through a GPU's explained period: its days, or of a day or less its hours, each with what
it comes to. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from fleetwatch.figures.totals import Bucket, Totals
from fleetwatch.lib.intervals import Interval

LONGEST_BY_HOUR = timedelta(hours=25)  # a day on which clocks are set back


@dataclass(frozen=True, slots=True)
class Step:
    """A day or an hour, as far as it lies in the period, and its time and dollars by state."""

    interval: Interval
    totals: Totals
    is_shown: bool  # it lies in the hours that are explained below


def size(period: Interval) -> str:
    """What its steps are, as figures are read by: "hour" or "day"."""
    return "hour" if period.end - period.start <= LONGEST_BY_HOUR else "day"


def steps(buckets: Sequence[Bucket], period: Interval, shown: Interval) -> list[Step]:
    """Those of which the ledger says anything, the newest first."""
    ends = [*(bucket.start for bucket in buckets[1:]), period.end]
    every = [
        _step(bucket, Interval(max(bucket.start, period.start), min(end, period.end)), shown)
        for bucket, end in zip(buckets, ends, strict=True)
        if bucket.totals.capacity_ms
    ]
    return every[::-1]


def _step(bucket: Bucket, interval: Interval, shown: Interval) -> Step:
    is_shown = interval.start < shown.end and shown.start < interval.end
    return Step(interval, bucket.totals, is_shown)


def beside(shown: Interval, period: Interval, now: datetime) -> tuple[Interval, Interval | None]:
    """What lies before the hours that are shown: the rest of the period, or of nothing left as long
    a time; and as long a time after them, up to now: None where they end with it.
    """
    length = shown.end - shown.start
    first = period.start if period.start < shown.start else shown.start - length
    after = Interval(shown.end, min(shown.end + length, now)) if shown.end < now else None
    return Interval(first, shown.start), after
