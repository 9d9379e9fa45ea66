"""Hours of dollars of the last half year, kept by day: derived from costs, and made again where
costs says something else.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from django.db import transaction
from numpy.typing import NDArray

from fleetwatch.accounts.selectors import zone
from fleetwatch.budgets.calendar import HOURS, Cut, cuts_of, lengths
from fleetwatch.budgets.models import SpendDay
from fleetwatch.costs.day_sums import SETTLED
from fleetwatch.figures import boundaries, pricing
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.selectors import Bucket, Series, Totals
from fleetwatch.lib.intervals import Interval, floor_hour

DAYS = 182  # of history: enough to try a month's forecast five times without overlap
LONGEST_KEY = 200
FLEET = "fleet"
# kinds that costs groups by; the fleet is the sum of its teams
GROUPED = ("team", "gpu_model", "node")
NOTHING = Decimal(0)
Floats = NDArray[np.float64]
METRICS = ("cost", "wasted")


@dataclass(frozen=True, slots=True)
class History:
    """Dollars of every series of a kind over whole days in a row, the newest last."""

    keys: list[str]
    days: list[Interval]
    usd: dict[str, Floats]  # by metric: [series, day, hour on the wall]; NaN = not known
    hours: Floats  # [day, hour on the wall]: how long it was


def known_until(now: datetime) -> datetime:
    """All before it is posted, but for data that comes late."""
    return floor_hour(now - SETTLED)


def note_days(now: datetime, *, days: int, limit: int) -> dict[str, int]:
    """Keeps the hours of the last `days` days; how many were made anew, and how many (beyond
    `limit`) are left for later.

    Safe twice. A day is made anew where any of its lines' dollars are not those that costs gives
    now: after late data, new rates or other teams of jobs the history is that of today's view.
    """
    organisation_zone = zone()
    oldest = boundaries.midnight(now, organisation_zone, days=-DAYS)
    SpendDay.objects.filter(start__lt=oldest).delete()
    first = boundaries.midnight(now, organisation_zone, days=-days)
    if first >= known_until(now):
        return {"days": 0, "left": 0}
    window = Interval(first, known_until(now))
    _forget_strange_days(window, organisation_zone)
    counts = [_make_changed(kind, window, limit, organisation_zone) for kind in GROUPED]
    return {"days": sum(made for made, _ in counts), "left": sum(left for _, left in counts)}


def _forget_strange_days(window: Interval, organisation_zone: ZoneInfo) -> None:
    """Rows of another zone's midnights are nobody's days."""
    starts = boundaries.steps(window, "day", organisation_zone)
    SpendDay.objects.filter(start__gte=window.start).exclude(start__in=starts).delete()


def _make_changed(
    kind: str, window: Interval, limit: int, organisation_zone: ZoneInfo
) -> tuple[int, int]:
    """How many of a kind's days were made anew, the newest first, and how many were left."""
    starts = _changed(kind, window)
    every = reversed(boundaries.days(window, organisation_zone))
    changed = [day for day in every if day.start in starts]
    for day in changed[:limit]:
        _make(kind, day, window.end, organisation_zone)
    return len(changed[:limit]), len(changed[limit:])


def read_history(kind: str, now: datetime, *, with_today: bool = False) -> History:
    """What is kept of a kind, from its first day on; with_today: the running day's hours too, NaN
    where it is still to come.
    """
    organisation_zone = zone()
    until = boundaries.midnight(now, organisation_zone, days=1 if with_today else 0)
    kept = SpendDay.objects.filter(kind=kind, start__lt=until)
    rows = list(kept.values_list("key", "start", "hours", "wasted_hours"))
    first = min((start for _, start, *_ in rows), default=until)
    days = boundaries.days(Interval(first, until), organisation_zone) if first < until else []
    keys = sorted({key for key, *_ in rows})
    usd = _by_series(rows, keys, days)
    return History(keys, days, _with_zeros(usd), lengths(days, organisation_zone))


def _by_series(
    rows: Iterable[tuple[Any, ...]], keys: Sequence[str], days: Sequence[Interval]
) -> dict[str, Floats]:
    """By metric: [series, day, hour on the wall], of rows of key, start and hours by metric."""
    series = {key: index for index, key in enumerate(keys)}
    place = {day.start: index for index, day in enumerate(days)}
    usd = {name: np.full((len(keys), len(days), HOURS), np.nan) for name in METRICS}
    for key, start, *hours in rows:
        for values, of_day in zip(usd.values(), hours, strict=True):
            if start in place:
                values[series[key], place[start]] = np.array(of_day, dtype=float)
    return usd


def _with_zeros(usd: dict[str, Floats]) -> dict[str, Floats]:
    """Where a day has rows of anybody, a series without one spent nothing."""
    is_known = np.isfinite(usd["cost"]).any(axis=0)
    return {
        name: np.where(np.isnan(values) & is_known, 0.0, values) for name, values in usd.items()
    }


def without_gaps(usd: Floats, hours: Floats) -> Floats:
    """Dollars [series, day, hour on the wall] with 0 for hours that the ledger has nothing of:
    there was no GPU, which costs nothing.

    Before the first hour that it knows, and of an hour that a day does not have, nothing is known.
    """
    is_known = np.isfinite(usd).any(axis=0)
    has_begun = np.maximum.accumulate(is_known.ravel()).reshape(is_known.shape)
    return np.where(~np.isfinite(usd) & has_begun & (hours > 0), 0.0, usd)


def _changed(kind: str, interval: Interval) -> set[datetime]:
    """The days of which a line's dollars are not those that are kept."""
    rows = SpendDay.objects.filter(kind=kind, start__gte=interval.start).values_list(
        "key", "start", "usd", "wasted_usd"
    )
    kept = {(key, start): (usd, wasted_usd) for key, start, usd, wasted_usd in rows}
    now = {
        (line.key[:LONGEST_KEY], bucket.start): _dollars(bucket.totals)
        for line in costs.over_time_by(interval, kind, "day")
        for bucket in line.buckets
        if bucket.totals.capacity_ms
    }
    return {
        start
        for key, start in kept.keys() | now.keys()
        if kept.get((key, start)) != now.get((key, start))
    }


def _dollars(totals: Totals) -> tuple[Decimal, Decimal]:
    return pricing.usd(totals.cost_usd), pricing.usd(totals.wasted_usd)


@transaction.atomic
def _make(kind: str, day: Interval, until: datetime, organisation_zone: ZoneInfo) -> None:
    """Replaces the rows of a day by what costs says of it, as far as it is known."""
    lines = costs.over_time_by(Interval(day.start, min(day.end, until)), kind, "hour")
    buckets = [bucket for line in lines for bucket in line.buckets]
    has_entries = {bucket.start for bucket in buckets if bucket.totals.capacity_ms}
    cuts = [
        cut
        for cut in cuts_of(day, organisation_zone)
        if floor_hour(cut.interval.start) in has_entries
    ]
    rows = [_row(kind, line.key, line.buckets, day, cuts) for line in lines if _has_time(line)]
    kinds = [kind]
    if kind == "team":
        kinds.append(FLEET)
        rows += [_row(FLEET, "", buckets, day, cuts)] if lines else []
    SpendDay.objects.filter(kind__in=kinds, start=day.start).delete()
    SpendDay.objects.bulk_create(rows)


def _has_time(line: Series) -> bool:
    return any(bucket.totals.capacity_ms for bucket in line.buckets)


def _row(
    kind: str, key: str, buckets: Sequence[Bucket], day: Interval, cuts: Sequence[Cut]
) -> SpendDay:
    cost = [(bucket.start, bucket.totals.cost_usd) for bucket in buckets]
    wasted = [(bucket.start, bucket.totals.wasted_usd) for bucket in buckets]
    return SpendDay(
        kind=kind,
        key=key[:LONGEST_KEY],
        start=day.start,
        usd=pricing.usd(sum((usd for _, usd in cost), NOTHING)),
        wasted_usd=pricing.usd(sum((usd for _, usd in wasted), NOTHING)),
        hours=_by_wall_hour(cuts, cost),
        wasted_hours=_by_wall_hour(cuts, wasted),
    )


def _by_wall_hour(
    cuts: Sequence[Cut], amounts: Iterable[tuple[datetime, Decimal]]
) -> list[float | None]:
    """Dollars of each hour on the wall; None where the ledger has no entry of anybody, or there is
    no such hour.
    """
    usd: dict[datetime, Decimal] = defaultdict(Decimal)
    for start, amount in amounts:
        usd[start] += amount
    dollars: list[float | None] = [None] * HOURS
    for cut in cuts:
        dollars[cut.hour] = (dollars[cut.hour] or 0.0) + float(usd[floor_hour(cut.interval.start)])
    return dollars
