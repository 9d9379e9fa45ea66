"""What of causes lies in the part of a cut that a period takes: as much as of the ledger's time
that they explain. Pure.
"""

from dataclasses import replace

import numpy as np

from fleetwatch.diagnosis.cause_columns import FIGURES, HIGH, LOW, WASTED
from fleetwatch.diagnosis.cause_totals import WASTE
from fleetwatch.figures.edges import pairs
from fleetwatch.figures.packed_spans import Ints, Spans
from fleetwatch.figures.state_spans import KINDS, Kind

_KIND_OF = [KINDS.index(Kind(state, tier, False)) for state, tier in WASTE.values()]
_HELD = FIGURES.index("held")


def in_part(whole: Spans[str], parts: Spans[Kind]) -> Spans[str]:
    """The causes of a cut with what of them lies in its part. Where they explain all of a GPU's
    waste there, they do so of the part's.

    Of a kind that causes explain in part, in whole milliseconds rounded down: they never explain
    more than there is.
    """
    count, of_cause, of_part = pairs((whole.gpu, whole.job), (parts.gpu, parts.job))
    ledger, asked = (
        np.zeros((count, len(KINDS)), dtype=np.int64),
        np.zeros((count, len(KINDS)), dtype=np.int64),
    )
    np.add.at(ledger, (of_part, parts.label), parts.figures["whole_ms"])
    np.add.at(asked, (of_part, parts.label), parts.figures["gpu_ms"])
    order = np.argsort(of_cause, kind="stable")
    holder, ms = of_cause[order], whole.figures["ms"][order]
    told = np.zeros_like(ms)
    told[:, _HELD] = _shared(holder, ms[:, _HELD], ledger.sum(axis=1), asked.sum(axis=1))
    for place, kind in enumerate(_KIND_OF, start=WASTED.start):
        told[:, place] = _shared(holder, ms[:, place], ledger[:, kind], asked[:, kind])
    wasted, wasted_in_part = ms[:, WASTED].sum(axis=1), told[:, WASTED].sum(axis=1)
    for place in (LOW, HIGH):
        told[:, place] = ms[:, place] * wasted_in_part // np.maximum(wasted, 1)
    ordered = whole.where(order)
    found = replace(ordered, figures={**ordered.figures, "ms": told})
    return found.where(told[:, _HELD] > 0)


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
