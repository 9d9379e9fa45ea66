"""The segments of one GPU: within which window, cut and holders do not change; and which window
speaks for which millisecond, where several cover it. Pure numpy.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fleetwatch.ledger.judgement.observations import (
    SCHEDULERS,
    Ints,
    Mask,
    SourceReport,
    Spans,
    Windows,
)
from fleetwatch.lib.spans import Span, difference, union


@dataclass(frozen=True, slots=True)
class Pieces:
    """Disjoint spans of one GPU, ascending, each spoken for by one window (a row of the frame)."""

    start_ms: Ints
    end_ms: Ints
    row: Ints


def resolve(windows: Windows, *, rows: Ints, is_seen: Mask) -> Pieces:
    """The disjoint pieces of one GPU's windows (`rows` of the frame); `is_seen` per window of the
    frame.
    """
    rows = rows[np.lexsort((windows.end_ms[rows], windows.start_ms[rows]))]
    start = windows.start_ms[rows]
    end = windows.end_ms[rows]
    if bool((end[:-1] <= start[1:]).all()):
        return Pieces(start, end, rows)
    return _resolve_overlaps(start, end, rows, _by_precedence(windows, rows, is_seen))


def _resolve_overlaps(start: Ints, end: Ints, rows: Ints, order: Ints) -> Pieces:
    """The pieces of windows that overlap; `order`: their positions by precedence."""
    edges = np.unique(np.concatenate([start, end]))
    low = np.searchsorted(edges, start)
    high = np.searchsorted(edges, end)
    owner = np.full(len(edges) - 1, -1, dtype=np.int64)
    # later writes win: each span keeps the window of the highest precedence that covers it
    for position in order:
        owner[low[position] : high[position]] = rows[position]
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


def build(
    *, start_ms: int, end_ms: int, cuts: Ints, pieces: Pieces, edges: Sequence[Ints]
) -> GPUSegments:
    """Segments over [start_ms, end_ms), broken at every cut, edge and end of a piece in it."""
    bounds = np.array([start_ms, end_ms], dtype=np.int64)
    more = np.unique(np.clip(np.concatenate([bounds, cuts, *edges]), start_ms, end_ms))
    own, row = _broken_at(more, pieces)
    low, high = np.searchsorted(own, [start_ms, end_ms]).tolist()
    start = own[low:high]
    of_cut = np.diff(np.searchsorted(start, cuts), append=len(start))
    cut = np.repeat(np.arange(len(cuts)), of_cut)
    return GPUSegments(start, own[low + 1 : high + 1], cut, row[low:high])


def _broken_at(more: Ints, pieces: Pieces) -> tuple[Ints, Ints]:
    """The edges of the pieces and more of them (ascending), and the row that speaks from each on;
    -1 where none does.
    """
    own, row = _broken(pieces)
    # the windows' edges are sorted already: what else breaks the time is little, and put between
    # them
    place = np.searchsorted(own, more)
    is_new = np.append(own, -1)[place] != more
    place = place[is_new]
    if len(place) == 0:
        return own, row
    return np.insert(own, place, more[is_new]), np.insert(row, place, np.append(row, -1)[place - 1])


def _broken(pieces: Pieces) -> tuple[Ints, Ints]:
    """The edges of the pieces, and the row that speaks from each on; -1 where none does."""
    is_end = np.append(pieces.end_ms[:-1] != pieces.start_ms[1:], len(pieces.row) > 0)[
        : len(pieces.row)
    ]
    after = np.flatnonzero(is_end) + 1
    return np.insert(pieces.start_ms, after, pieces.end_ms[is_end]), np.insert(
        pieces.row, after, -1
    )


def rows_at(start_ms: Ints, pieces: Pieces) -> Ints:
    """The row of the window that speaks for each segment that starts there; -1 where none does."""
    edges, row = _broken(pieces)
    return np.append(row, -1)[np.searchsorted(edges, start_ms, side="right") - 1]


def inside(start_ms: Ints, spans: Spans) -> Mask:
    """Which segments, by their starts, lie in the spans (disjoint, ascending)."""
    is_inside = np.zeros(len(start_ms), dtype=bool)
    bounds = np.searchsorted(start_ms, edges_of(spans)).tolist()
    for first, last in zip(bounds[::2], bounds[1::2], strict=True):
        is_inside[first:last] = True
    return is_inside


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
