"""The segments of one GPU: within which window, cut and holders do not change; and which window
speaks for which millisecond, where several cover it. Pure numpy.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fleetwatch.jobs.allocation_sources import SCHEDULERS
from fleetwatch.ledger.judgement.observations import (
    Ints,
    Mask,
    SourceReport,
    Spans,
    Windows,
)
from fleetwatch.lib.spans import Span, difference, union

TIME_BITS = 46  # milliseconds up to the year 4199
TIME_MASK = (1 << TIME_BITS) - 1


@dataclass(frozen=True, slots=True)
class Pieces:
    """Disjoint spans of one GPU, ascending, each spoken for by one window (a row of the frame)."""

    start_ms: Ints
    end_ms: Ints
    row: Ints

    def part(self, low: int, high: int) -> "Pieces":
        """Those from the one position to the other."""
        return Pieces(self.start_ms[low:high], self.end_ms[low:high], self.row[low:high])


def by_gpu(windows: Windows) -> Pieces:
    """All windows, GPU after GPU, as if each spoke for all of its time."""
    gpu_id = windows.gpu_id
    if (gpu_id[:-1] <= gpu_id[1:]).all():
        return Pieces(windows.start_ms, windows.end_ms, np.arange(len(gpu_id)))
    return _whole(windows, np.argsort(gpu_id, kind="stable"))


def resolve(windows: Windows, *, rows: Ints, is_seen: Mask) -> Pieces:
    """The disjoint pieces of one GPU's windows (`rows` of the frame); `is_seen` per window of the
    frame.
    """
    pieces = _whole(windows, rows)
    # nearly always they come in order, and none covers another
    if _are_in_turn(pieces):
        return pieces
    pieces = _whole(windows, rows[np.lexsort((pieces.end_ms, pieces.start_ms))])
    if _are_in_turn(pieces):
        return pieces
    return _resolve_overlaps(pieces, _by_precedence(windows, pieces.row, is_seen))


def _whole(windows: Windows, rows: Ints) -> Pieces:
    """All of these windows, as they come."""
    return Pieces(windows.start_ms[rows], windows.end_ms[rows], rows)


def _are_in_turn(pieces: Pieces) -> bool:
    return bool((pieces.end_ms[:-1] <= pieces.start_ms[1:]).all())


def _resolve_overlaps(windows: Pieces, order: Ints) -> Pieces:
    """The pieces of windows that overlap; `order`: their positions by precedence."""
    edges = np.unique(np.concatenate([windows.start_ms, windows.end_ms]))
    low = np.searchsorted(edges, windows.start_ms)
    high = np.searchsorted(edges, windows.end_ms)
    owner = np.full(len(edges) - 1, -1, dtype=np.int64)
    # later writes win: each span keeps the window of the highest precedence that covers it
    for position in order:
        owner[low[position] : high[position]] = windows.row[position]
    # a window's neighbouring spans are one piece again: the edges of windows that lost cut nothing
    is_edge = np.diff(owner, prepend=-2, append=-2) != 0
    first = np.flatnonzero(is_edge[:-1] & (owner >= 0))
    last = np.flatnonzero(is_edge[1:] & (owner >= 0))
    return Pieces(edges[first], edges[last + 1], owner[first])


def _by_precedence(windows: Windows, rows: Ints, is_seen: Mask) -> Ints:
    """The positions in these rows, ascending: where two cover a millisecond, the later speaks.

    One that says what the GPU did wins, then the higher observed fraction, then the later
    (boot_start_ms, sequence) (docs/wire.md); what is still equal is told apart by
    start and length, so that the order in which rows come decides nothing.
    """
    start = windows.start_ms[rows]
    end = windows.end_ms[rows]
    fraction = np.minimum(windows.observed_ms[rows] / (end - start), 1.0)
    return np.lexsort(
        (end, start, windows.sequence[rows], windows.boot_start_ms[rows], fraction, is_seen[rows])
    )


@dataclass(frozen=True, slots=True)
class GPUSegments:
    """Adjacent spans over a GPU's capacity: the cut (position in the cut edges) of each, and the
    window (row) that speaks, -1: none.
    """

    start_ms: Ints
    end_ms: Ints
    cut: Ints
    row: Ints


def edges_of(spans: Iterable[Span]) -> Ints:
    """Both ends of each span."""
    return np.array([edge for span in spans for edge in span], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Lane:
    """A GPU's capacity, the pieces of its windows, and what else breaks its time."""

    start_ms: int
    end_ms: int
    pieces: Pieces
    edges: Sequence[Ints]


def build(lanes: Sequence[Lane], cuts: Ints) -> list[GPUSegments]:
    """The segments over each lane's capacity, broken at every cut, edge and end of a piece in it.

    All lanes at once: a moment of a lane is one number, the lane's before the time.
    """
    if not lanes:
        return []
    edges, row = _broken_at(*_broken_lanes(lanes), _edges_of_lanes(lanes, cuts))
    place = np.flatnonzero(_are_inside(edges, lanes))
    bounds = np.searchsorted(edges[place] >> TIME_BITS, np.arange(len(lanes) + 1)).tolist()
    start_ms = edges[place] & TIME_MASK
    # what follows a start is of the same lane: its end, if nothing else
    end_ms = edges[place + 1] & TIME_MASK
    cut = np.searchsorted(cuts, start_ms, side="right") - 1
    columns = (start_ms, end_ms, cut, row[place])
    return [
        GPUSegments(*(values[low:high] for values in columns))
        for low, high in itertools.pairwise(bounds)
    ]


def _are_inside(edges: Ints, lanes: Sequence[Lane]) -> Mask:
    """Which of all lanes' edges begin a segment within its capacity."""
    lane = edges >> TIME_BITS
    at_ms = edges & TIME_MASK
    first_ms = np.array([each.start_ms for each in lanes])
    end_ms = np.array([each.end_ms for each in lanes])
    return np.asarray((at_ms >= first_ms[lane]) & (at_ms < end_ms[lane]))


def _broken_lanes(lanes: Sequence[Lane]) -> tuple[Ints, Ints]:
    """The edges of all lanes' pieces, ascending, and the row that speaks from each on; -1 where
    none does.
    """
    start_ms, end_ms, row = (
        np.concatenate([getattr(lane.pieces, name) for lane in lanes])
        for name in ("start_ms", "end_ms", "row")
    )
    number = np.repeat(np.arange(len(lanes)), [len(lane.pieces.row) for lane in lanes])
    begins = number << TIME_BITS | start_ms
    ends = number << TIME_BITS | end_ms
    # after the last one of all, too
    last = np.flatnonzero(np.append(ends[:-1] != begins[1:], True)[: len(ends)])
    return np.insert(begins, last + 1, ends[last]), np.insert(row, last + 1, -1)


def _edges_of_lanes(lanes: Sequence[Lane], cuts: Ints) -> Ints:
    """Of each lane the cuts and its other edges within its capacity, ascending."""
    first_ms, end_ms = (
        np.array(bounds, dtype=np.int64)
        for bounds in zip(*((lane.start_ms, lane.end_ms) for lane in lanes), strict=True)
    )
    lane = np.repeat(
        np.arange(len(lanes)), [len(cuts) + sum(map(len, each.edges)) for each in lanes]
    )
    edges = np.concatenate([part for each in lanes for part in (cuts, *each.edges)])
    edges = np.minimum(np.maximum(edges, first_ms[lane]), end_ms[lane])
    own = np.arange(len(lanes)) << TIME_BITS
    return np.unique(np.concatenate([own | first_ms, own | end_ms, lane << TIME_BITS | edges]))


def _broken_at(own: Ints, row: Ints, more: Ints) -> tuple[Ints, Ints]:
    """The edges and more of them (both ascending), and the row that speaks from each on; -1 where
    none does.
    """
    # the windows' edges are sorted already: what else breaks the time is little, and put between
    # them
    place = np.searchsorted(own, more)
    is_new = np.append(own, -1)[place] != more
    place = place[is_new]
    before = np.append(row, -1)[place - 1]
    return np.insert(own, place, more[is_new]), np.insert(row, place, before)


def _broken(pieces: Pieces) -> tuple[Ints, Ints]:
    """The edges of the pieces, and the row that speaks from each on; -1 where none does."""
    gaps = np.flatnonzero(pieces.end_ms[:-1] != pieces.start_ms[1:])
    start_ms = pieces.start_ms
    row = pieces.row
    if len(gaps):
        start_ms = np.insert(start_ms, gaps + 1, pieces.end_ms[gaps])
        row = np.insert(row, gaps + 1, -1)
    # after the last one, where there is one
    return np.append(start_ms, pieces.end_ms[-1:]), np.append(row, np.full_like(row[-1:], -1))


def rows_at(start_ms: Ints, pieces: Pieces) -> Ints:
    """The row of the window that speaks for each segment that starts there; -1 where none does."""
    edges, row = _broken(pieces)
    return np.append(row, -1)[np.searchsorted(edges, start_ms, side="right") - 1]


def inside(start_ms: Ints, spans: Spans) -> Mask:
    """Which segments, by their starts, lie in the spans (disjoint, ascending)."""
    # most often a job holds all of what is asked about
    if len(spans) == 1 and _covers(spans[0], start_ms):
        return np.ones(len(start_ms), dtype=bool)
    is_inside = np.zeros(len(start_ms), dtype=bool)
    bounds = np.searchsorted(start_ms, edges_of(spans)).tolist()
    for first, last in zip(bounds[::2], bounds[1::2], strict=True):
        is_inside[first:last] = True
    return is_inside


def _covers(span: Span, start_ms: Ints) -> bool:
    """Whether all segments lie in it, of which there are some."""
    return len(start_ms) > 0 and bool(span[0] <= start_ms[0] and start_ms[-1] < span[1])


def is_within(start_ms: Ints, spans: Spans) -> Mask:
    """The same of segments in any order."""
    return np.asarray(np.searchsorted(edges_of(spans), start_ms, side="right") % 2 == 1)


def scheduler_status(
    sources: Sequence[SourceReport],
) -> tuple[list[Span], list[Span]]:
    """When every scheduler that reported answered, and when one did not.

    Where a kind is reported both ok and not ok for a millisecond, ok wins. Outside of both no
    scheduler reported: a bare host.
    """
    answered = []
    silent = []
    for kind in SCHEDULERS:
        ok, failed = (
            union(
                span
                for report in sources
                if report.kind == kind and report.ok == is_ok
                for span in report.spans
            )
            for is_ok in (True, False)
        )
        answered += ok
        silent += difference(failed, ok)
    unknown = union(silent)
    return difference(answered, unknown), unknown
