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
from fleetwatch.lib.kept import Kept
from fleetwatch.lib.memo import read_once
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

_EDGES = read_statement("figures/sql/edges.sql")
_VERSIONS = read_statement("figures/sql/versions_of_cuts.sql")
_MOMENT = timedelta(microseconds=1)
# of all cuts together: three of 10,000 GPUs, thirty of 1,000
MOST_BYTES = 32 * 2**20


@dataclass(frozen=True, slots=True)
class Edge:
    """A cut of the ledger, and what of it is asked for."""

    cut: Interval
    part: Interval


@dataclass(frozen=True, slots=True)
class _Cut:
    """What is stored of a cut: its entries, by GPU, holder and kind, and the parts of its runs."""

    spans: Spans[Kind]
    runs: RunColumns

    @property
    def size(self) -> int:
        """Bytes."""
        columns = (*self.spans.columns, *self.runs)
        return sum(column.nbytes for column in columns)


_KEPT: Kept[Interval, _Cut] = Kept(MOST_BYTES)


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
    cuts = [edge.cut for edge in edges]
    whole = _read(cuts, node_ids) if node_ids is not None else _kept_or_read(cuts)
    return reduce(
        joined, (_of_edge(edge, place, whole[edge.cut]) for place, edge in enumerate(edges))
    )


def _kept_or_read(cuts: Sequence[Interval]) -> dict[Interval, _Cut]:
    """Of the fleet: as long as a cut is not posted again, it is not read again. Runs of a closed
    month that are judged again make no version: its entries stay as they were, too.
    """
    # before the cuts: what is posted meanwhile makes the version another one
    versions: dict[datetime, object] = dict(
        fetched(_VERSIONS, {"cuts": [cut.start for cut in cuts]})
    )
    kept = {cut: _KEPT.read(cut, versions[cut.start]) for cut in cuts if cut.start in versions}
    whole = {cut: stored for cut, stored in kept.items() if stored is not None}
    if missing := [cut for cut in cuts if cut not in whole]:
        whole |= _read(missing, None)
    for cut in missing:
        if cut.start in versions:
            _KEPT.keep(cut, versions[cut.start], whole[cut])
    return whole


def _read(cuts: Sequence[Interval], node_ids: Sequence[int] | None) -> dict[Interval, _Cut]:
    wanted = {
        "cuts": [cut.start for cut in cuts],
        "start_ms": [cut.start_ms for cut in cuts],
        "end_ms": [cut.end_ms for cut in cuts],
        "node_ids": None if node_ids is None else list(node_ids),
    }
    rows = fetched(_EDGES, wanted)
    # all nodes of a cut at once: a large fleet has a thousand of them
    return {cut: _cut([row for row in rows if row[0] == at]) for at, cut in enumerate(cuts)}


def _cut(rows: Sequence[tuple[Any, ...]]) -> _Cut:
    """Of a cut's rows (its number, node, entries, the columns of packed runs).

    A GPU has another id with each node, so nodes need not be told apart.
    """
    spans = unpacked([(node, 0, 0, None, packed) for _, node, packed, *_ in rows], RECORD, KINDS)
    # by GPU, holder and kind: who rounds goes by that order
    in_order = spans.where(np.lexsort((spans.label, spans.job, spans.gpu)))
    return _Cut(in_order, packed_runs.unpacked([row[3:] for row in rows]))


def _of_edge(edge: Edge, number: int, cut: _Cut) -> Spans[Kind]:
    spans = cut.spans
    whole_ms = spans.figures["gpu_ms"]
    part_ms = part_of(spans.gpu, spans.job, spans.label, whole_ms, _outside(edge, cut.runs))
    figures = _clipped(spans.figures, part_ms) | {"whole_ms": whole_ms}
    return replace(spans, step=np.full(len(whole_ms), number), figures=figures)


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
