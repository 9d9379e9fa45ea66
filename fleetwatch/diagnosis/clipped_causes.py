"""What of causes lies in the part of a cut that a period takes: as much as of the ledger's time
that they explain. Pure.
"""

from dataclasses import replace

import numpy as np

from fleetwatch.diagnosis.cause_totals import HELD, HIGH, LOW, WASTE, WASTED
from fleetwatch.figures.edges import pairs
from fleetwatch.figures.packed_spans import Ints, Spans
from fleetwatch.figures.state_spans import KINDS, Kind

_KIND_OF = [KINDS.index(Kind(state, tier, False)) for state, tier in WASTE.values()]


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
    order = np.argsort(of_cause, kind="stable")
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
