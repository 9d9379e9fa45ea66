"""The ledger's time by state: the vocabulary of costs.

Sums of days are read where they are as new as their entries, of the fleet or else of nodes, and
entries elsewhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np

from fleetwatch.figures import edges, fleet_sums
from fleetwatch.figures.alike_gpus import alike_gpus
from fleetwatch.figures.edges import Edge
from fleetwatch.figures.engine import Asked
from fleetwatch.figures.fleet_sums import Form
from fleetwatch.figures.packed_spans import Bools, Ints, Spans, unpacked
from fleetwatch.figures.scopes import Limits, named_jobs
from fleetwatch.figures.state_spans import CUT_RECORD, KINDS, RECORD, Kind
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

_NODES, _SPANS, _HOURS = (
    read_statement(f"figures/sql/{name}.sql") for name in ("nodes_of", "spans", "hours")
)

_NO_NODE = 0  # ids begin with 1
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
        wanted = asked.within(interval) | {"states": asked.limits["states"]}
        if asked.step == "hour":  # of which sums of days know nothing
            return _by_hour(unpacked(fetched(_HOURS, wanted), CUT_RECORD, KINDS), asked)
        of_fleet = self._fleet_days(interval, asked)
        rest = [day for day in asked.days if day.start not in of_fleet]
        wanted |= {
            "use_sums": self.with_sums,
            "day_starts": [day.start for day in rest],
            "day_ends": [day.end for day in rest],
        }
        rows = [
            (_NO_NODE, *asked.step_and_era(start), None, spans) for start, spans in of_fleet.items()
        ]
        spans = unpacked([*rows, *fetched(_SPANS, wanted)], RECORD, KINDS)
        # what the fleet's rows do not say
        return _at_nodes(spans) if of_fleet and asked.of_nodes else spans

    def _fleet_days(self, interval: Interval, asked: Asked) -> dict[datetime, bytes]:
        """The packed spans of whole days of the interval, by their start; none where more is told
        apart than they have.
        """
        form = _form(asked)
        if form is None or not (self.with_sums and self.with_fleet_days and asked.is_of_fleet):
            return {}
        days = [
            day
            for day in asked.days
            if interval.start <= day.start and day.end <= interval.end and asked.eras.is_one(day)
        ]
        return fleet_sums.current(days, form) if days else {}

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


def _at_nodes(spans: Spans[Kind]) -> Spans[Kind]:
    return replace(spans, node=alike_gpus().nodes_of(spans.gpu))


def _by_hour(spans: Spans[Kind], asked: Asked) -> Spans[Kind]:
    """Spans that say in which cut they are: each in its step and era."""
    figures = dict(spans.figures)
    cut = figures.pop("cut")
    step = _begun(asked.steps, cut) - 1
    return replace(spans, step=step, era=_begun(asked.eras.starts[1:], cut), figures=figures)


def _begun(starts: Sequence[datetime], cut: Ints) -> Ints:
    """Of each cut how many of these began by its start."""
    moments = [(start - _DATABASE_EPOCH) // _MICROSECOND for start in starts]
    return np.searchsorted(np.array(moments, dtype=np.int64), cut, side="right")
