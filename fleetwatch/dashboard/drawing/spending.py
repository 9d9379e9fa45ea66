"""Dollars over time: by state, and by whatever they are grouped."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from itertools import groupby

from django.db.models import Min

from fleetwatch.dashboard import words
from fleetwatch.dashboard.compared_period import COMPARE, NONE, recorded_before
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
from fleetwatch.dashboard.opened_costs import opened_by
from fleetwatch.dashboard.parameters import CAUSE, SUBJECTS
from fleetwatch.dashboard.period import Period
from fleetwatch.diagnosis import cause_look
from fleetwatch.figures import boundaries
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.selectors import Bucket, Parts
from fleetwatch.figures.totals import Scope, together
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger.policy import STATES
from fleetwatch.lib.intervals import Interval, from_ms, to_ms

STEPS = ("hour", "day", "week", "month")
LARGEST = 7  # groups with a colour of their own
TIERS = {"certain": "idle", "probable": "stalled"}  # of what is wasted: the token of each
LAG_MS = 180_000  # the ledger is behind by less, while agents send


def steps_of(period: Period) -> tuple[str, ...]:
    """In which steps the period can be drawn: the finest with no more than MAX_POINTS, and coarser
    ones.
    """
    return STEPS[STEPS.index(period.timeframe.step) :]


def by_state(params: Params, period: Period) -> Chart:
    """Dollars per step, by state. Raises NoSuchChartError for a step that can't be drawn."""
    step = _step_asked(params, period)
    buckets = _coarser(
        costs.dollars_over_time(period.interval, _read_in(step), scope=scope_asked(params)),
        step,
        period,
    )
    dollars = [bucket.totals.shown_cost for bucket in buckets]
    links = opened_by("state", STATES, _subjects(params))
    parts = [
        Part(
            state.label,
            state.name,
            [_rounded(usd[state.name]) for usd in dollars],
            links.get(state.name, ""),
        )
        for state in words.SHOWN
    ]
    return _chart(f"Dollars per {step} by state", buckets, parts, period, step)


def by_group(params: Params, period: Period) -> Chart:
    """Dollars per step of the groups that cost most, of all others, and of nobody; of jobs those
    that cost most alone, beside which all others would be a grey wall.

    Raises NoSuchChartError for a grouping that there is not, or a step that can't be drawn.
    """
    group_by = params.get("group_by") or "team"
    if group_by == "state":
        return by_state(params, period)
    if group_by not in costs.GROUPS:
        raise NoSuchChartError(group_by)
    step = _step_asked(params, period)
    seen = costs.largest_over_time(
        period.interval, group_by, _read_in(step), LARGEST, scope=scope_asked(params)
    )
    links = opened_by(group_by, [line.key for line in seen.largest], _subjects(params))
    title = f"Dollars per {step} by {group_by.replace('_', ' ')}"
    if group_by == "job":
        title = f"Dollars per {step} of the jobs that cost most"
        seen = replace(seen, others=[], unallocated=[])
    parts = _parts(seen, links, step, period)
    return _chart(title, _coarser(seen.whole, step, period), parts, period, step)


def wasted(params: Params, period: Period) -> Chart:
    """Dollars wasted per step, certain and probable, and what a step of the period before wasted on
    the mean, unless nothing is to be compared with. Raises NoSuchChartError for a step that can't
    be drawn.
    """
    step = _step_asked(params, period)
    scope = scope_asked(params)
    cause = _cause_asked(params)
    buckets = _coarser(_over_time(period.interval, _read_in(step), scope, cause), step, period)
    parts = [
        Part(tier.capitalize(), token, [_rounded(each.totals.waste_usd[tier]) for each in buckets])
        for tier, token in TIERS.items()
    ]
    chart = _chart(f"Dollars wasted per {step}", buckets, parts, period, step)
    if params.get(COMPARE) == NONE or not chart.figure["data"]:
        return chart
    mean_usd = _mean_before(period, step, scope, cause)
    if mean_usd is None:
        return chart
    figure = figures.with_level(chart.figure, f"Period before, mean per {step}", mean_usd)
    return replace(chart, figure=figure)


def _cause_asked(params: Params) -> str:
    """Raises NoSuchChartError for a cause that no time is wasted by."""
    cause = params.get(CAUSE) or ""
    if cause and cause not in cause_look.WASTING:
        raise NoSuchChartError(cause)
    return cause


def _over_time(interval: Interval, step: str, scope: Scope, cause: str) -> list[Bucket]:
    """All of it, or what one cause took."""
    if cause:
        return cause_look.dollars_over_time(cause, interval, step, scope=scope)
    return costs.dollars_over_time(interval, step, scope=scope)


def _mean_before(period: Period, step: str, scope: Scope, cause: str) -> float | None:
    """Dollars that a whole step of the period before wasted; None where that is not recorded."""
    earlier = recorded_before(period)
    if earlier is None:
        return None
    begins = boundaries.beginning(period.interval.start, step, period.zone)
    steps = (earlier.end - earlier.start) / (
        boundaries.following(begins, step, period.zone) - begins
    )
    look = partial(cause_look.look, cause) if cause else costs.look
    return float(look(earlier, scope=scope).totals().wasted_usd) / steps


def _parts(seen: Parts, links: Mapping[str, str], step: str, period: Period) -> list[Part]:
    """The largest groups, all others, and nobody's; `links` by group lead to their own costs."""
    groups = [
        *(
            (line.label, f"group-{n}", line.buckets, line.key)
            for n, line in enumerate(seen.largest, 1)
        ),
        ("All others", "others", seen.others, ""),
        ("Unallocated", "free", seen.unallocated, ""),
    ]
    return [
        Part(label, token, _dollars(_coarser(buckets, step, period)), links.get(key, ""))
        for label, token, buckets, key in groups
        if buckets
    ]


def _step_asked(params: Params, period: Period) -> str:
    """Raises NoSuchChartError for one that the period can't be drawn in."""
    step = params.get("step") or period.timeframe.step
    if step not in steps_of(period):
        raise NoSuchChartError(step)
    return step


def _read_in(step: str) -> str:
    """The steps that the ledger's time is read in."""
    return step if step in costs.STEPS else "day"


def _coarser(buckets: Sequence[Bucket], step: str, period: Period) -> Sequence[Bucket]:
    """Days as the weeks or months that they make; hours and days as they are."""
    if step in costs.STEPS:
        return buckets
    of_step = groupby(buckets, lambda each: boundaries.beginning(each.start, step, period.zone))
    return [Bucket(start, together(each.totals for each in days)) for start, days in of_step]


def _subjects(params: Params) -> dict[str, str] | None:
    """What the chart is narrowed to, as a page of costs would be; None where no such page is."""
    if params.get("gpu") or params.get("job"):
        return None
    return {name: params[name] for name in SUBJECTS if params.get(name)}


def _dollars(buckets: Sequence[Bucket]) -> list[float]:
    return [_rounded(bucket.totals.cost_usd) for bucket in buckets]


def _rounded(usd: Decimal) -> float:
    return round(float(usd), 6)


def _chart(
    title: str, whole: Sequence[Bucket], parts: Sequence[Part], period: Period, step: str
) -> Chart:
    """Parts of the same buckets as the whole."""
    shown = spent_bars(whole, step, period)
    bars = [bar for _, bar in shown]
    parts = [replace(part, dollars=_of_buckets(part, whole, shown)) for part in parts]
    return Chart(
        title,
        figures.stacked_dollars(bars, parts, step=step),
        lambda: heads(period, [f"End ({period.clock})", *(f"{part.label} $" for part in parts)]),
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
    until = min(period.interval.end, period.now)
    since = recorded_since(period)
    for bucket in buckets:
        bar = _bar_of(bucket.start, since, until, step, period)
        if bar.shown_ms <= 0 and bucket.totals.capacity_ms:  # it was recorded all the same
            bar = _bar_of(bucket.start, period.interval.start, until, step, period)
        known_ms = max(0, bar.shown_ms)
        if known_ms and boundaries.following(bucket.start, step, period.zone) > period.now:
            known_ms = _known_ms(bucket, known_ms, drawn)
        if known_ms:
            drawn.append((bucket, replace(bar, known_ms=known_ms)))
    return drawn


def partial_steps(period: Period, step: str, since: datetime) -> list[str]:
    """The steps that the period since then has a part of alone, in words; none where bars would be
    too many to tell them apart.
    """
    so_far = period.so_far
    if since >= so_far.end:
        return []
    starts = boundaries.steps(Interval(since, so_far.end), step, period.zone)
    if len(starts) > figures.MAX_BARS:
        return []
    ends = sorted({starts[0], starts[-1]}) if starts else []
    bars = [_bar_of(begins, since, so_far.end, step, period) for begins in ends]
    return [figures.bar_name(bar, step) for bar in bars if bar.is_part]


def recorded_since(period: Period) -> datetime:
    """From when on the period has data: its start, or when the first GPU was there. What was before
    is not known, and no $0.
    """
    start = period.interval.start
    first_ms = GPU.objects.aggregate(first_ms=Min("first_ms"))["first_ms"]
    return start if first_ms is None else max(start, from_ms(first_ms))


def _bar_of(begins: datetime, since: datetime, until: datetime, step: str, period: Period) -> Bar:
    """The step that begins then, as far as it lies between the two moments."""
    whole_end = boundaries.following(begins, step, period.zone)
    whole_ms = to_ms(whole_end) - to_ms(begins)
    start = period.local(max(begins, since))
    end = period.local(min(whole_end, until))
    return Bar(start, end, whole_ms, whole_ms, period.local(begins))


def _known_ms(running: Bucket, shown_ms: int, before: Sequence[tuple[Bucket, Bar]]) -> int:
    """Of how much of the step that goes on the ledger knows: it is behind by what agents and
    posting take, told by the GPUs before.
    """
    if not before or not before[-1][0].totals.capacity_ms:
        return shown_ms
    bucket, bar = before[-1]
    known_ms = running.totals.capacity_ms * bar.known_ms // bucket.totals.capacity_ms
    return max(0, shown_ms - LAG_MS, min(shown_ms, known_ms))
