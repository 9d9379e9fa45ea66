"""The ledger's time by state: the vocabulary of costs.

Sums of days are read where they are as new as their entries, of the fleet or else of nodes, and
entries elsewhere.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any

import numpy as np

from fleetwatch.figures import edges, fleet_sums
from fleetwatch.figures.alike_gpus import alike_gpus
from fleetwatch.figures.edges import Edge
from fleetwatch.figures.engine import Asked
from fleetwatch.figures.fleet_sums import Fields, Form
from fleetwatch.figures.packed_spans import (
    Bools,
    Ints,
    Spans,
    fields,
    joined,
    of_fields,
    unpacked,
)
from fleetwatch.figures.scopes import Limits, named_jobs
from fleetwatch.figures.state_spans import CUT_RECORD, KINDS, RECORD, Kind
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

_NODES, _SPANS, _HOURS = (
    read_statement(f"figures/sql/{name}.sql") for name in ("nodes_of", "spans", "hours")
)

_DATABASE_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class LedgerTime:
    """Spans of states; without sums of the fleet's days from those of nodes, and without these from
    entries alone.
    """

    with_sums: bool = True
    with_fleet_days: bool = True

    def limits(self, limits: Limits) -> Limits:
        return limits

    def node_ids(self, interval: Interval, limits: Limits) -> list[int]:
        wanted = {
            "start": interval.start,
            "end": interval.end,
            "job_ids": named_jobs(limits),
            "gpu_ids": limits["gpu_ids"],
        }
        return [pk for (pk,) in fetched(_NODES, wanted)]

    def whole(self, interval: Interval, asked: Asked) -> Spans[Kind]:
        days = self._fleet_days(interval, asked)
        cuts = self._fleet_cuts(interval, asked, days)
        rest = [day for day in asked.days if day.start not in days and day.start not in cuts]
        parts = [self._of_nodes(rest, interval, asked)]
        if cuts:
            parts.append(_of_cuts(_of_fleet_cuts(cuts), interval, asked))
        if days:
            parts.append(_of_fleet_days(days, asked))
        spans = reduce(joined, parts)
        # what the fleet's rows do not say
        return _at_nodes(spans) if asked.of_nodes and (days or cuts) else spans

    def _fleet_days(self, interval: Interval, asked: Asked) -> dict[datetime, Fields]:
        """The spans of whole days of the interval, by their start; none where hours, or more
        than they have, is told apart.
        """
        form = _form(asked)
        if form is None or asked.step == "hour" or not self._reads_fleet(asked):
            return {}
        days = [day for day in asked.days if _is_whole(day, interval, asked)]
        return fleet_sums.current(days, form) if days else {}

    def _fleet_cuts(
        self, interval: Interval, asked: Asked, days: Mapping[datetime, Fields]
    ) -> dict[datetime, Fields]:
        """The spans of days by cut, by their start: of those that lie in the interval in
        part, or have several prices, and of any where hours are told apart.
        """
        if not self._reads_fleet(asked):
            return {}
        parted = [
            day for day in asked.days if asked.step == "hour" or not _is_whole(day, interval, asked)
        ]
        return fleet_sums.current(parted, Form.HOUR) if parted else {}

    def _reads_fleet(self, asked: Asked) -> bool:
        return self.with_sums and self.with_fleet_days and asked.is_of_fleet

    def _of_nodes(self, days: Sequence[Interval], interval: Interval, asked: Asked) -> Spans[Kind]:
        """What nodes' sums and entries say of these days; hours, of which the sums know nothing, by
        entries alone.
        """
        if asked.step == "hour":
            by_cut = [
                row
                for part in _parts(days, interval)
                for row in fetched(_HOURS, _wanted(part, asked))
            ]
            return _of_cuts(unpacked(by_cut, CUT_RECORD, KINDS), interval, asked)
        wanted = _wanted(interval, asked) | {
            "use_sums": self.with_sums,
            "day_starts": [day.start for day in days],
            "day_ends": [day.end for day in days],
        }
        return unpacked(fetched(_SPANS, wanted), RECORD, KINDS)

    def in_parts(self, ends: Sequence[Edge], asked: Asked) -> Spans[Kind]:
        spans = edges.parts(ends, asked.node_ids)
        at = np.array([asked.step_and_era(edge.cut.start) for edge in ends], dtype=np.int64)
        step, era = at[spans.step].T
        return replace(spans, step=step, era=era).where(spans.figures["gpu_ms"] > 0)

    def chosen(self, spans: Spans[Kind], limits: Limits) -> list[Bools]:
        states = limits["states"]
        shown = limits["shown"]
        if states is None and shown is None:
            return []
        wanted = [
            (states is None or kind.state in states) and (shown is None or kind.shown in shown)
            for kind in KINDS
        ]
        return [np.array(wanted)[spans.label]]


def _form(asked: Asked) -> Form | None:
    """The form of the fleet's days that has what is asked for; None = there is none."""
    if asked.of_jobs:
        return None if asked.of_gpus or asked.of_nodes else Form.JOB
    if asked.of_gpus:
        return Form.GPU
    return Form.NODE if asked.of_nodes else Form.TOTAL


def _of_fleet_cuts(cuts: Mapping[datetime, Fields]) -> Spans[Kind]:
    return of_fields([(0, 0, each) for each in cuts.values()], KINDS)


def _of_fleet_days(days: Mapping[datetime, Fields], asked: Asked) -> Spans[Kind]:
    parts = [(*asked.step_and_era(start), each) for start, each in days.items()]
    return of_fields(parts, KINDS)


def _at_nodes(spans: Spans[Kind]) -> Spans[Kind]:
    return replace(spans, node=alike_gpus().nodes_of(spans.gpu))


def entries_by_cut(day: Interval) -> Fields:
    """What the entries of all nodes' day say, by the names of CUT_RECORD: those of the same cut,
    GPU, holder and kind may be several.
    """
    limits = dict.fromkeys(("node_ids", "job_id", "gpu_ids", "states"))
    rows = fetched(_HOURS, limits | {"start": day.start, "end": day.end})
    return fields(b"".join(spans for *_, spans in rows), CUT_RECORD)


def _wanted(interval: Interval, asked: Asked) -> dict[str, Any]:
    return asked.within(interval) | {"states": asked.limits["states"]}


def _is_whole(day: Interval, interval: Interval, asked: Asked) -> bool:
    """Whether all of the day lies in the interval, under one price."""
    return interval.start <= day.start and day.end <= interval.end and asked.eras.is_one(day)


def _parts(days: Iterable[Interval], interval: Interval) -> list[Interval]:
    """What of the interval lies in these days, ascending: days in a row are one."""
    parts: list[Interval] = []
    for day in days:
        start = max(day.start, interval.start)
        end = min(day.end, interval.end)
        if start >= end:
            continue  # touched by a part of an hour alone, beyond the whole cuts
        if parts and parts[-1].end == start:
            start = parts.pop().start
        parts.append(Interval(start, end))
    return parts


def _of_cuts(spans: Spans[Kind], interval: Interval, asked: Asked) -> Spans[Kind]:
    """Of spans that say in which cut they are those in the interval, each in its step and era."""
    start, end = (_microseconds(moment) for moment in (interval.start, interval.end))
    cut = spans.figures["cut"]
    spans = spans.where((cut >= start) & (cut < end))
    figures = dict(spans.figures)
    cut = figures.pop("cut")
    step = _begun(asked.steps, cut) - 1
    return replace(spans, step=step, era=_begun(asked.eras.starts[1:], cut), figures=figures)


def _begun(starts: Sequence[datetime], cut: Ints) -> Ints:
    """Of each cut how many of these began by its start."""
    moments = np.array([_microseconds(start) for start in starts], dtype=np.int64)
    return np.searchsorted(moments, cut, side="right")


def _microseconds(moment: datetime) -> int:
    """Since the database's epoch."""
    return (moment - _DATABASE_EPOCH) // _MICROSECOND
