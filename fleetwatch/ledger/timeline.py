"""The unbroken timeline of a GPU: atoms, within which window, cut and holders do not change. Pure numpy."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fleetwatch.ledger.facts import SCHEDULERS, Ints, Mask, SourceReport, Spans
from fleetwatch.ledger.windows import Pieces
from fleetwatch.lib.spans import difference, union

SCHEDULER_OK, BARE, SCHEDULER_UNKNOWN = 1, 0, -1


@dataclass(frozen=True, slots=True)
class Atoms:
    """Adjacent spans over a GPU's capacity, and the cut (position in the cut edges) of each."""

    start_ms: Ints
    end_ms: Ints
    cut: Ints

    @property
    def length_ms(self) -> Ints:
        return self.end_ms - self.start_ms

    def part(self, some: slice | Ints) -> "Atoms":
        """These atoms alone."""
        return Atoms(self.start_ms[some], self.end_ms[some], self.cut[some])


def edges_of(spans: Iterable[tuple[int, int]]) -> Ints:
    """Both ends of each span."""
    return np.array([edge for span in spans for edge in span], dtype=np.int64)


def build(*, start_ms: int, end_ms: int, cuts: Ints, edges: Sequence[Ints]) -> Atoms:
    """Atoms over [start_ms, end_ms), broken at every edge and cut in it."""
    # a stable sort of runs that are sorted already is several times faster than np.unique
    found = np.sort(np.concatenate([np.array([start_ms, end_ms], dtype=np.int64), cuts, *edges]), kind="stable")
    found = found[(found >= start_ms) & (found <= end_ms) & np.append(found[1:] != found[:-1], True)]
    start = found[:-1]
    return Atoms(start, found[1:], np.searchsorted(cuts, start, side="right") - 1)


def rows_at(atoms: Atoms, pieces: Pieces) -> Ints:
    """The row of the window that speaks for each atom; -1 where none does."""
    if len(pieces.row) == 0:
        return np.full(len(atoms.start_ms), -1, dtype=np.int64)
    piece = np.searchsorted(pieces.start_ms, atoms.start_ms, side="right") - 1
    found = (piece >= 0) & (atoms.start_ms < pieces.end_ms[np.maximum(piece, 0)])
    return np.where(found, pieces.row[np.maximum(piece, 0)], -1)


def inside(atoms: Atoms, spans: Spans) -> Mask:
    """Which atoms lie in the spans (disjoint, ascending)."""
    found = np.zeros(len(atoms.start_ms), dtype=bool)
    bounds = np.searchsorted(atoms.start_ms, edges_of(spans)).tolist()
    for first, last in zip(bounds[::2], bounds[1::2], strict=True):
        found[first:last] = True
    return found


def scheduler_status(sources: Sequence[SourceReport]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """When every scheduler that reported answered, and when one did not.

    Where a kind is reported both ok and not ok for a millisecond, ok wins. Outside of both no
    scheduler reported: a bare host.
    """
    answered, silent = [], []
    for kind in SCHEDULERS:
        ok = union(span for one in sources if one.kind == kind and one.ok for span in one.spans)
        failed = union(span for one in sources if one.kind == kind and not one.ok for span in one.spans)
        answered += ok
        silent += difference(failed, ok)
    unknown = union(silent)
    return difference(answered, unknown), unknown
