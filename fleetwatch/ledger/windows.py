"""Which window speaks for which millisecond, where several cover it. Pure numpy."""

from dataclasses import dataclass

import numpy as np

from fleetwatch.ledger.observations import Ints, Mask, Windows


@dataclass(frozen=True, slots=True)
class Pieces:
    """Disjoint spans of one GPU, ascending, each spoken for by one window (a row of the frame)."""

    start_ms: Ints
    end_ms: Ints
    row: Ints


def precedence(windows: Windows, rows: Ints, *, is_seen: Mask) -> Ints:
    """A rank per window of these rows: where two cover a millisecond, the higher speaks.

    One that says what the GPU did wins, then the higher observed fraction, then the later
    (boot_start_ms, sequence) (docs/wire.md); what is still equal is told apart by
    start and length, so that the order in which rows come decides nothing.
    """
    start, end = windows.start_ms[rows], windows.end_ms[rows]
    fraction = np.minimum(windows.observed_ms[rows] / (end - start), 1.0)
    order = np.lexsort(
        (end, start, windows.sequence[rows], windows.boot_start_ms[rows], fraction, is_seen[rows])
    )
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank


def resolve(windows: Windows, *, rows: Ints, is_seen: Mask) -> Pieces:
    """The disjoint pieces of one GPU's windows (`rows` of the frame); `is_seen` per window of the
    frame.
    """
    start, end = windows.start_ms[rows], windows.end_ms[rows]
    if bool((end[:-1] <= start[1:]).all()):
        return Pieces(start, end, rows)
    rows = rows[np.lexsort((end, start))]
    start, end = windows.start_ms[rows], windows.end_ms[rows]
    if bool((end[:-1] <= start[1:]).all()):
        return Pieces(start, end, rows)
    return _resolve_overlaps(start, end, rows=rows, rank=precedence(windows, rows, is_seen=is_seen))


def _resolve_overlaps(start: Ints, end: Ints, *, rows: Ints, rank: Ints) -> Pieces:
    edges = np.unique(np.concatenate([start, end]))
    low, high = np.searchsorted(edges, start), np.searchsorted(edges, end)
    owner = np.full(len(edges) - 1, -1, dtype=np.int64)
    # later writes win: ascending precedence, so each span keeps the highest that covers it
    for position in np.argsort(rank, kind="stable"):
        owner[low[position] : high[position]] = rows[position]
    # a window's neighbouring spans are one piece again: the edges of windows that lost cut nothing
    first = np.flatnonzero((owner != np.concatenate([[-2], owner[:-1]])) & (owner >= 0))
    last = np.flatnonzero((owner != np.concatenate([owner[1:], [-2]])) & (owner >= 0))
    return Pieces(edges[first], edges[last + 1], owner[first])
