"""Dollars over time: by state, and by whatever they are grouped."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from fleetwatch.dashboard import words
from fleetwatch.dashboard.drawing import figures
from fleetwatch.dashboard.drawing.chart import (
    Chart,
    NoSuchChartError,
    Params,
    heads,
    scope_asked,
    text_of,
)
from fleetwatch.dashboard.drawing.figures import Bar, Part
from fleetwatch.dashboard.period import Period
from fleetwatch.figures import boundaries
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.selectors import Bucket
from fleetwatch.lib.intervals import to_ms

LARGEST = 7  # groups with a colour of their own
LAG_MS = 180_000  # the ledger is behind by less, while agents send


def by_state(params: Params, period: Period) -> Chart:
    """Dollars per hour or day, by state."""
    step = period.timeframe.step
    buckets = costs.dollars_over_time(period.interval, step, scope=scope_asked(params))
    dollars = [bucket.totals.shown_cost for bucket in buckets]
    parts = [
        Part(state.label, state.name, [_rounded(usd[state.name]) for usd in dollars])
        for state in words.SHOWN
    ]
    return _chart(f"Dollars per {step} by state", buckets, parts, period)


def by_group(params: Params, period: Period) -> Chart:
    """Dollars per hour or day of the groups that cost most, of all others, and of nobody.

    Raises NoSuchChartError for a grouping that there is not.
    """
    group_by = params.get("group_by") or "team"
    if group_by == "state":
        return by_state(params, period)
    if group_by not in costs.GROUPS:
        raise NoSuchChartError(group_by)
    step = period.timeframe.step
    seen = costs.largest_over_time(
        period.interval, group_by, step, LARGEST, scope=scope_asked(params)
    )
    parts = [
        *(_part(line.label, f"group-{n}", line.buckets) for n, line in enumerate(seen.largest, 1)),
        _part("All others", "others", seen.others),
        _part("Unallocated", "free", seen.unallocated),
    ]
    title = f"Dollars per {step} by {group_by.replace('_', ' ')}"
    return _chart(title, seen.whole, [part for part in parts if part.dollars], period)


def _part(label: str, token: str, buckets: Sequence[Bucket]) -> Part:
    return Part(label, token, [_rounded(bucket.totals.cost_usd) for bucket in buckets])


def _rounded(usd: Decimal) -> float:
    return round(float(usd), 6)


def _chart(title: str, whole: Sequence[Bucket], parts: Sequence[Part], period: Period) -> Chart:
    """Parts of the same buckets as the whole."""
    step = period.timeframe.step
    shown = spent_bars(whole, step, period)
    bars = [bar for _, bar in shown]
    parts = [replace(part, dollars=_of_buckets(part, whole, shown)) for part in parts]
    return Chart(
        title,
        figures.stacked_dollars(bars, parts, step=step),
        heads(period, [f"End ({period.clock})", *(f"{part.label} $" for part in parts)]),
        lambda: [
            [text_of(bar.start), text_of(bar.end), *(part.dollars[at] for part in parts)]
            for at, bar in enumerate(bars)
        ],
    )


def _of_buckets(
    part: Part, whole: Sequence[Bucket], shown: Sequence[tuple[Bucket, Bar]]
) -> list[float]:
    """The part's dollars in the shown ones of the whole."""
    dollars = dict(zip((bucket.start for bucket in whole), part.dollars, strict=True))
    return [dollars[bucket.start] for bucket, _ in shown]


def spent_bars(buckets: Sequence[Bucket], step: str, period: Period) -> list[tuple[Bucket, Bar]]:
    """The buckets of the period that have begun, each with where it is drawn: as far as it lies in
    the period and is over, and something of it is known.
    """
    drawn: list[tuple[Bucket, Bar]] = []
    for bucket in buckets:
        whole_end = boundaries.following(bucket.start, step, period.zone)
        start = max(bucket.start, period.interval.start)
        end = min(whole_end, period.interval.end, period.now)
        known_ms = max(0, to_ms(end) - to_ms(start))
        if known_ms and whole_end > period.now:
            known_ms = _known_ms(bucket, known_ms, drawn)
        if known_ms:
            whole_ms = to_ms(whole_end) - to_ms(bucket.start)
            drawn.append((bucket, Bar(period.local(start), period.local(end), whole_ms, known_ms)))
    return drawn


def _known_ms(running: Bucket, shown_ms: int, before: Sequence[tuple[Bucket, Bar]]) -> int:
    """Of how much of the step that goes on the ledger knows: it is behind by what agents and
    posting take, told by the GPUs before.
    """
    if not before or not before[-1][0].totals.capacity_ms:
        return shown_ms
    bucket, bar = before[-1]
    known_ms = running.totals.capacity_ms * bar.known_ms // bucket.totals.capacity_ms
    return max(0, shown_ms - LAG_MS, min(shown_ms, known_ms))
