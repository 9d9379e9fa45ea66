"""Held time by its cause: the vocabulary of diagnosis; of a part of a cut as much of each cause as
the part has of the ledger's time that it explains.

Sums of days are read where they are as new as their causes, entries elsewhere.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import reduce

import numpy as np

from fleetwatch.diagnosis import fleet_cause_days
from fleetwatch.diagnosis.cause_columns import RECORD
from fleetwatch.diagnosis.cause_totals import HELD, HIGH, LOW, WASTE, WASTED
from fleetwatch.diagnosis.fleet_cause_days import CAUSED, FleetDay
from fleetwatch.diagnosis.models import CauseEntry
from fleetwatch.figures import edges
from fleetwatch.figures.edges import Edge, pairs
from fleetwatch.figures.engine import Asked
from fleetwatch.figures.packed_spans import Bools, Ints, Spans, joined, unpacked
from fleetwatch.figures.scopes import Limits, named_jobs
from fleetwatch.figures.state_spans import KINDS, Kind
from fleetwatch.inventory.models import GPU
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.rows import fetched

_KIND_OF = [KINDS.index(Kind(state, tier, False)) for state, tier in WASTE.values()]
_DAY = timedelta(days=1)
_MOMENT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class CauseTime:
    """Spans of causes, of one alone where it is named.

    `is_current`: of hours whose ledger is still the one that was diagnosed. Without sums of days,
    and by step, from entries alone.
    """

    cause: str | None = None
    job_ids: Sequence[int] | None = None
    is_current: bool = False
    with_sums: bool = True

    def limits(self, limits: Limits) -> Limits:
        """A job holds all of a cause's time, and its states are what it was diagnosed for."""
        if limits["is_allocated"]:
            return limits | {"states": None, "is_allocated": None}
        return limits | {"states": None}

    def node_ids(self, interval: Interval, limits: Limits) -> list[int]:
        rows = CauseEntry.objects.filter(start__gte=interval.start, start__lt=interval.end)
        jobs = named_jobs(limits)
        if jobs is not None:
            rows = rows.filter(job__in=jobs)
        if limits["gpu_ids"] is not None:
            # a GPU has another id with each node: by the index on (node, start)
            of_gpus = GPU.objects.filter(pk__in=limits["gpu_ids"]).values("node")
            rows = rows.filter(gpu__in=limits["gpu_ids"], node__in=of_gpus)
        return sorted(rows.order_by().values_list("node_id", flat=True).distinct())

    def whole(self, interval: Interval, asked: Asked) -> Spans[str]:
        kept = self._fleet_days(interval, asked)
        spans = self._but([day for day, *_ in kept], interval, asked)
        return joined(fleet_cause_days.spans_of(kept), spans) if kept else spans

    def _but(self, kept_days: Sequence[date], interval: Interval, asked: Asked) -> Spans[str]:
        """What is not kept of whole cuts, each GPU by itself."""
        wanted = asked.within(interval) | {
            "days": _days(interval),
            "kept_days": kept_days,
            "use_sums": self.with_sums and asked.step is None,
            "cause": self.cause,
            "is_current": self.is_current,
            "of_summed": False,
        }
        return unpacked(fetched(CAUSED, wanted), RECORD)

    def _fleet_days(self, interval: Interval, asked: Asked) -> list[FleetDay]:
        """Of the interval's days, or what of them lies in it, under one price, what was wasted
        on nodes of which they are summed, each with the number of its era; none where more
        than causes and holders is told apart.
        """
        if not self._reads_kept(asked) or asked.of_gpus or asked.of_nodes:
            return []
        parts = {day: _part_of(day, interval) for day in _days(interval)}
        of_one_price = {day: part for day, part in parts.items() if asked.eras.is_one(part)}
        return [
            (day, asked.step_and_era(parts[day].start)[1], of_day)
            for day, of_day in fleet_cause_days.current(of_one_price).items()
        ]

    def _reads_kept(self, asked: Asked) -> bool:
        of_days = self.with_sums and asked.step is None and not self.is_current
        return of_days and asked.is_of_fleet

    def _of_cut(self, cut: Interval, asked: Asked) -> Spans[str]:
        """The causes of a cut, each GPU by itself."""
        is_kept = self._reads_kept(asked) and asked.eras.is_one(cut)
        kept = fleet_cause_days.of_cut(cut) if is_kept else None
        if kept is None:
            return self._but([], cut, asked)
        _, era = asked.step_and_era(cut.start)
        of_era = replace(kept, era=np.full(len(kept.gpu), era))
        return joined(of_era, self._but(_days(cut), cut, asked))

    def in_parts(self, ends: Sequence[Edge], asked: Asked) -> Spans[str]:
        """As much of each cause as the part has of what the ledger says it wasted."""

        def clipped(edge: Edge, ledger: Spans[Kind]) -> Spans[str]:
            return in_part(self._of_cut(edge.cut, asked), ledger)

        return of_edges(ends, asked.node_ids, clipped)

    def chosen(self, spans: Spans[str], limits: Limits) -> list[Bools]:
        chosen = []
        if self.job_ids is not None:
            chosen.append(np.isin(spans.job, self.job_ids))
        if self.cause is not None:
            is_it = np.array([name == self.cause for name in spans.labels], dtype=bool)
            chosen.append(is_it[spans.label])
        return chosen


def _days(interval: Interval) -> list[date]:
    """The UTC days that it touches."""
    first = interval.start.astimezone(UTC).date()
    last = (interval.end - _MOMENT).astimezone(UTC).date()
    return [first + _DAY * place for place in range((last - first).days + 1)]


def _part_of(day: date, interval: Interval) -> Interval:
    """What of the UTC day lies in the interval, which touches it."""
    start = datetime.combine(day, time(), UTC)
    return Interval(max(start, interval.start), min(start + _DAY, interval.end))


def of_edges(
    ends: Sequence[Edge],
    node_ids: Sequence[int] | None,
    clipped: Callable[[Edge, Spans[Kind]], Spans[str]],
) -> Spans[str]:
    """What `clipped` makes of each edge and the ledger's time there, on these nodes (None: on
    all).
    """
    ledger = edges.parts(ends, node_ids)
    parts = (clipped(edge, ledger.where(ledger.step == step)) for step, edge in enumerate(ends))
    return reduce(joined, parts)


def in_part(whole: Spans[str], parts: Spans[Kind]) -> Spans[str]:
    """The causes of a cut with what of them lies in its part. Where they explain all of a GPU's
    waste there, they do so of the part's.

    Of a kind that causes explain in part, in whole milliseconds rounded down: they never explain
    more than there is.
    """
    count, of_cause, of_part = pairs((whole.gpu, whole.job), (parts.gpu, parts.job))
    ledger, asked = (
        _by_figure(count, of_part, parts.label, parts.figures[name])
        for name in ("whole_ms", "gpu_ms")
    )
    # by cause: who rounds goes by that order, not by that of the database
    order = np.lexsort((whole.label, of_cause))
    ordered = whole.where(order)
    ms = _clipped(of_cause[order], ordered.figures["ms"], ledger, asked)
    in_part = replace(ordered, figures={**ordered.figures, "ms": ms})
    return in_part.where(ms[:, HELD] > 0)


def _by_figure(count: int, place: Ints, kind: Ints, ms: Ints) -> Ints:
    """The sums of holders x figures: of what was held, and of each kind of WASTE."""
    sums = np.zeros((count, len(KINDS)), dtype=np.int64)
    np.add.at(sums, (place, kind), ms)
    return np.column_stack([sums.sum(axis=1), sums[:, _KIND_OF]])


def _clipped(holder: Ints, ms: Ints, ledger: Ints, asked: Ints) -> Ints:
    """Of the rows' FIGURES what lies in the part; could be saved as much as of the waste."""
    clipped = np.zeros_like(ms)
    for place in range(WASTED.stop):
        clipped[:, place] = _shared(holder, ms[:, place], ledger[:, place], asked[:, place])
    wasted = np.maximum(ms[:, WASTED].sum(axis=1), 1)
    for place in (LOW, HIGH):
        clipped[:, place] = ms[:, place] * clipped[:, WASTED].sum(axis=1) // wasted
    return clipped


def _shared(holder: Ints, ms: Ints, whole: Ints, part: Ints) -> Ints:
    """Of each row (those of a holder stand together) its share of the holder's part, as `ms` is of
    the whole.
    """
    through = np.cumsum(ms)
    first = np.searchsorted(holder, holder)
    through = through - (through - ms)[first]
    last = np.searchsorted(holder, holder, side="right") - 1
    # a ledger that changed since has less than was explained of it
    total = np.maximum(whole[holder], through[last]) if len(holder) else whole[holder]
    shared = through * part[holder] // np.maximum(total, 1)
    rows: Ints = shared - np.where(np.arange(len(holder)) == first, 0, np.roll(shared, 1))
    return rows
