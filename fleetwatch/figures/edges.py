"""A period that begins or ends within a cut of the ledger takes a part of it: the cut's entries,
less what its runs say of the rest.

A run's states are spread evenly over its length, as everywhere. Of each GPU the part has exactly
the time that lies in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from zoneinfo import ZoneInfo

import numpy as np

from fleetwatch.figures import boundaries
from fleetwatch.figures.packed_spans import Floats, Ints, Spans, numbered, unpacked
from fleetwatch.figures.state_spans import KINDS, KINDS_OF_A_STATE, RECORD, Kind
from fleetwatch.ledger.policy import STATES
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.rows import array_of, fetched
from fleetwatch.lib.sql import read_statement

_EDGES = read_statement("figures/sql/edges.sql")
_RUN = np.dtype(
    [
        ("gpu", ">i8"),
        ("job", ">i8"),
        ("start_ms", ">i8"),
        ("end_ms", ">i8"),
        ("states", array_of(">i4", len(STATES))),
    ]
)
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
    first = boundaries.outward(Interval(interval.start, interval.start + _MOMENT), zone)
    last = boundaries.outward(Interval(interval.end - _MOMENT, interval.end), zone)
    start, end, edges = interval.start, interval.end, []
    if first == last and interval != first:
        return None, [Edge(first, interval)]
    if start != first.start:
        edges.append(Edge(first, Interval(start, first.end)))
        start = first.end
    if end != last.end:
        edges.append(Edge(last, Interval(last.start, end)))
        end = last.start
    return (Interval(start, end) if start < end else None), edges


@dataclass(frozen=True, slots=True)
class Parts:
    """Columns of one length: GPU time of one GPU, holder and kind in the cut of an edge, and what
    of it lies in the part.
    """

    edge: Ints  # place in the edges
    node: Ints
    gpu: Ints
    job: Ints  # 0 = nobody
    kind: Ints
    whole_ms: Ints
    part_ms: Ints
    energy_j: Floats  # of the part; NaN = not read
    energy_ms: Ints  # of the part

    def of(self, number: int) -> "Parts":
        """Those of one edge."""
        chosen = self.edge == number
        return replace(self, **{name: getattr(self, name)[chosen] for name in Parts.__slots__})


@dataclass(frozen=True, slots=True)
class Outside:
    """Columns: time of runs by state that lies in the cut and not in the part."""

    gpu: Ints
    job: Ints
    states_ms: Floats  # runs x STATES


def parts(edges: Sequence[Edge], node_ids: Sequence[int] | None) -> Parts:
    """What the edges take of their cuts, on these nodes (None: on all)."""
    wanted = {
        "cuts": [edge.cut.start for edge in edges],
        "start_ms": [edge.cut.start_ms for edge in edges],
        "end_ms": [edge.cut.end_ms for edge in edges],
        "part_start_ms": [edge.part.start_ms for edge in edges],
        "part_end_ms": [edge.part.end_ms for edge in edges],
        "node_ids": node_ids,
    }
    rows = fetched(_EDGES, wanted)
    # all nodes of an edge at once: a large fleet has a thousand of them
    found = [
        _of_edge(place, edge, [row[1:] for row in rows if row[0] == place])
        for place, edge in enumerate(edges)
    ]
    return _joined(found)


def _of_edge(place: int, edge: Edge, rows: Sequence[tuple[int, bytes, bytes]]) -> Parts:
    """Of (node, entries, runs) of one edge.

    A GPU has another id with each node, so nodes need not be told apart.
    """
    cut = _cut([(node, entries) for node, entries, _ in rows])
    runs = b"".join(packed for _, _, packed in rows)
    gpu_ms = part_ms = cut.figures["gpu_ms"]
    if runs:
        part_ms = part_of(cut.gpu, cut.job, cut.label, gpu_ms, _outside(edge, runs))
    share = part_ms / np.maximum(gpu_ms, 1)
    return Parts(
        edge=np.full(len(cut.gpu), place, dtype=np.int64),
        node=cut.node,
        gpu=cut.gpu,
        job=cut.job,
        kind=cut.label,
        whole_ms=gpu_ms,
        part_ms=part_ms,
        energy_j=cut.figures["energy_j"] * share,
        energy_ms=np.floor(cut.figures["energy_ms"] * share + 0.5).astype(np.int64),
    )


def _cut(rows: Sequence[tuple[int, bytes]]) -> Spans[Kind]:
    """The entries of nodes by GPU, holder and kind, in that order: who rounds goes by it."""
    spans = unpacked([(node, 0, 0, None, entries) for node, entries in rows], RECORD, KINDS)
    return spans.where(np.lexsort((spans.label, spans.job, spans.gpu)))


def _outside(edge: Edge, runs: bytes) -> Outside:
    packed = np.frombuffer(runs, dtype=_RUN)
    start, end = packed["start_ms"].astype(np.int64), packed["end_ms"].astype(np.int64)
    in_cut = _overlap(start, end, edge.cut)
    in_part = _overlap(start, end, edge.part)
    share = (in_cut - in_part) / np.maximum(end - start, 1)
    states_ms = packed["states"]["each"]["value"] * share[:, None]
    return Outside(packed["gpu"].astype(np.int64), packed["job"].astype(np.int64), states_ms)


def _overlap(start: Ints, end: Ints, interval: Interval) -> Ints:
    overlap: Ints = np.maximum(
        np.minimum(end, interval.end_ms) - np.maximum(start, interval.start_ms), 0
    )
    return overlap


def part_of(gpu: Ints, job: Ints, kind: Ints, gpu_ms: Ints, outside: Outside) -> Ints:
    """Milliseconds of each row that lie in the part. Rows are in order; of a GPU they sum to its
    time less what lies outside. Pure.

    What runs say of a GPU, holder and state is taken from its kinds alike.
    """
    holders, of_row, of_run = pairs((gpu, job), (outside.gpu, outside.job))
    left_out = np.zeros((holders, len(STATES)))
    np.add.at(left_out, of_run, outside.states_ms)
    state = kind // KINDS_OF_A_STATE
    whole = np.zeros((holders, len(STATES)))
    np.add.at(whole, (of_row, state), gpu_ms)
    inside = 1 - left_out[of_row, state] / np.maximum(whole[of_row, state], 1)
    part_ms: Floats = gpu_ms.astype(np.float64) * np.clip(inside, 0, 1)
    return _rounded(gpu, part_ms, _capacity(gpu, gpu_ms, outside))


def pairs(first: tuple[Ints, Ints], second: tuple[Ints, Ints]) -> tuple[int, Ints, Ints]:
    """How many pairs of GPU and holder there are in both tables, and which one each of their rows
    is of.
    """
    (gpu, job), (other_gpu, other_job) = first, second
    _, gpu_at = numbered(np.concatenate([gpu, other_gpu]))
    jobs, job_at = numbered(np.concatenate([job, other_job]))
    distinct, at = numbered(gpu_at * len(jobs) + job_at)
    return len(distinct), at[: len(gpu)], at[len(gpu) :]


def _capacity(gpu: Ints, gpu_ms: Ints, outside: Outside) -> Floats:
    """Of each row the time of its whole GPU in the part, in milliseconds."""
    gpus, at = numbered(np.concatenate([gpu, outside.gpu]))
    of_row, of_run = at[: len(gpu)], at[len(gpu) :]
    total = np.bincount(of_row, gpu_ms, len(gpus)) - np.bincount(
        of_run, outside.states_ms.sum(axis=1), len(gpus)
    )
    rounded: Floats = np.maximum(np.floor(total + 0.5), 0)
    return rounded[of_row]


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


def _joined(several: Sequence[Parts]) -> Parts:
    return replace(
        several[0],
        **{
            name: np.concatenate([getattr(each, name) for each in several])
            for name in Parts.__slots__
        },
    )
