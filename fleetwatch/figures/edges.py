"""A period that begins or ends within a cut of the ledger takes a part of it: the cut's entries,
less what its runs say of the rest.

A run's states are spread evenly over its length, as everywhere. Of each GPU the part has exactly
the time that lies in it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import reduce
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from fleetwatch.figures import boundaries
from fleetwatch.figures.packed_spans import Floats, Ints, Spans, joined, numbered, unpacked
from fleetwatch.figures.state_spans import KINDS, KINDS_OF_A_STATE, RECORD, Kind
from fleetwatch.ledger import packed_runs
from fleetwatch.ledger.packed_runs import RunColumns
from fleetwatch.ledger.policy import STATES
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.memo import read_once
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

_EDGES = read_statement("figures/sql/edges.sql")
_MOMENT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Edge:
    """A cut of the ledger, and what of it is asked for."""

    cut: Interval
    part: Interval


def split(interval: Interval, zone: ZoneInfo) -> tuple[Interval | None, list[Edge]]:
    """The whole cuts in the interval (None: it holds none), and those at its ends of which it takes
    a part.
    """
    first = _cut_of(interval.start, zone)
    last = _cut_of(interval.end - _MOMENT, zone)
    start = interval.start if interval.start == first.start else first.end
    end = interval.end if interval.end == last.end else last.start
    if start > end:  # within one cut
        return None, [Edge(first, interval)]
    ends = ((first, interval.start, start), (last, end, interval.end))
    edges = [Edge(cut, Interval(since, until)) for cut, since, until in ends if since < until]
    return (Interval(start, end) if start < end else None), edges


def _cut_of(moment: datetime, zone: ZoneInfo) -> Interval:
    return boundaries.outward(Interval(moment, moment + _MOMENT), zone)


@dataclass(frozen=True, slots=True)
class Outside:
    """Columns: time of runs by state that lies in the cut and not in the part."""

    gpu: Ints
    job: Ints
    states_ms: Floats  # runs x STATES


def parts(edges: Sequence[Edge], node_ids: Sequence[int] | None) -> Spans[Kind]:
    """What the edges take of their cuts, on these nodes (None: on all): the step is the place of
    the edge; `whole_ms` is a span's time in the whole cut, the other figures are of the part.
    """
    return _parts(tuple(edges), None if node_ids is None else tuple(node_ids))


@read_once  # of a page's period several vocabularies ask
def _parts(edges: tuple[Edge, ...], node_ids: tuple[int, ...] | None) -> Spans[Kind]:
    wanted = {
        "cuts": [edge.cut.start for edge in edges],
        "start_ms": [edge.cut.start_ms for edge in edges],
        "end_ms": [edge.cut.end_ms for edge in edges],
        "node_ids": None if node_ids is None else list(node_ids),
    }
    rows = fetched(_EDGES, wanted)
    # all nodes of an edge at once: a large fleet has a thousand of them
    spans = [_of_edge(edge, place, rows) for place, edge in enumerate(edges)]
    return reduce(joined, spans)


def _of_edge(edge: Edge, number: int, rows: Sequence[tuple[Any, ...]]) -> Spans[Kind]:
    """Of (edge, node, entries, the columns of packed runs) those of one edge.

    A GPU has another id with each node, so nodes need not be told apart.
    """
    own = [row for row in rows if row[0] == number]
    spans = [(node, number, 0, None, packed) for _, node, packed, *_ in own]
    cut = unpacked(spans, RECORD, KINDS)
    # by GPU, holder and kind: who rounds goes by that order
    cut = cut.where(np.lexsort((cut.label, cut.job, cut.gpu)))
    whole_ms = cut.figures["gpu_ms"]
    runs = packed_runs.unpacked([row[3:] for row in own])
    part_ms = part_of(cut.gpu, cut.job, cut.label, whole_ms, _outside(edge, runs))
    return replace(cut, figures=_clipped(cut.figures, part_ms) | {"whole_ms": whole_ms})


def _clipped(figures: Mapping[str, NDArray[Any]], part_ms: Ints) -> dict[str, NDArray[Any]]:
    """The figures of the part, as it has these milliseconds."""
    share = part_ms / np.maximum(figures["gpu_ms"], 1)
    return {
        "gpu_ms": part_ms,
        "energy_j": figures["energy_j"] * share,
        "energy_ms": np.floor(figures["energy_ms"] * share + 0.5).astype(np.int64),
    }


def _outside(edge: Edge, runs: RunColumns) -> Outside:
    part = edge.part
    runs = runs.where((runs.start_ms < part.start_ms) | (runs.end_ms > part.end_ms))
    in_cut = _overlap(runs.start_ms, runs.end_ms, edge.cut)
    in_part = _overlap(runs.start_ms, runs.end_ms, part)
    share = (in_cut - in_part) / np.maximum(runs.end_ms - runs.start_ms, 1)
    return Outside(runs.gpu, runs.job, runs.states_ms * share[:, None])


def _overlap(start: Ints, end: Ints, interval: Interval) -> Ints:
    overlap = np.minimum(end, interval.end_ms) - np.maximum(start, interval.start_ms)
    inside: Ints = np.maximum(overlap, 0)
    return inside


def part_of(gpu: Ints, job: Ints, kind: Ints, gpu_ms: Ints, outside: Outside) -> Ints:
    """Milliseconds of each span that lie in the part. They are in order; of a GPU they sum to its
    time less what lies outside. Pure.
    """
    holders, of_span, of_run = pairs((gpu, job), (outside.gpu, outside.job))
    left_out = np.zeros((holders, len(STATES)))
    np.add.at(left_out, of_run, outside.states_ms)
    state = kind // KINDS_OF_A_STATE
    whole = np.zeros((holders, len(STATES)))
    np.add.at(whole, (of_span, state), gpu_ms)
    inside = 1 - left_out[of_span, state] / np.maximum(whole[of_span, state], 1)
    part_ms: Floats = gpu_ms.astype(np.float64) * np.clip(inside, 0, 1)
    return _rounded(gpu, part_ms, _capacity(gpu, gpu_ms, outside))


def pairs(first: tuple[Ints, Ints], second: tuple[Ints, Ints]) -> tuple[int, Ints, Ints]:
    """How many pairs of GPU and holder there are in both tables, and which one each of their rows
    is of.
    """
    gpu, job = (np.concatenate(column) for column in zip(first, second, strict=True))
    jobs, job_at = numbered(job)
    distinct, at = numbered(numbered(gpu)[1] * len(jobs) + job_at)
    count = len(first[0])
    return len(distinct), at[:count], at[count:]


def _capacity(gpu: Ints, gpu_ms: Ints, outside: Outside) -> Floats:
    """Of each row the time of its whole GPU in the part, in milliseconds."""
    gpus, at = numbered(np.concatenate([gpu, outside.gpu]))
    outside_ms = outside.states_ms.sum(axis=1)
    total = np.bincount(at[: len(gpu)], gpu_ms, len(gpus))
    total = total - np.bincount(at[len(gpu) :], outside_ms, len(gpus))
    rounded: Floats = np.maximum(np.floor(total + 0.5), 0)
    return rounded[at[: len(gpu)]]


def _rounded(gpu: Ints, part_ms: Floats, capacity_ms: Floats) -> Ints:
    """Whole milliseconds that sum to each GPU's capacity: of what stands before a row the rounded
    part goes to the rows before.
    """
    gpus, at = numbered(gpu)
    sums = np.bincount(at, part_ms, len(gpus))[at]
    scaled = np.where(sums > 0, part_ms * capacity_ms / np.where(sums > 0, sums, 1), 0)
    # rows of a GPU stand together
    through = np.cumsum(scaled)
    first = np.searchsorted(at, np.arange(len(gpus)))[at]
    before = (through - scaled)[first]
    # far below a millisecond, so that a whole number is never cut off
    whole = np.floor(through - before + 0.5 + 1e-6).astype(np.int64)
    rows: Ints = whole - np.where(np.arange(len(at)) == first, 0, np.roll(whole, 1))
    return rows
