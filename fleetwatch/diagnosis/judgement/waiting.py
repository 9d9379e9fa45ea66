"""How much of the free GPU time could have been used by jobs that waited in the queue. Pure numpy.

Known is how many GPUs the whole queue waits for, not how many each job wants together. What fits
for sure are nodes of which every GPU is free; single free GPUs may be too few for any job that
waits: they count at most.
"""

from typing import NamedTuple

import numpy as np

from fleetwatch.ledger.judgement.cell_states import CELL_MS
from fleetwatch.ledger.judgement.observations import Floats, Ints, Mask

# A scheduler starts what fits within minutes: only what waits in two cells in a row beside a free
# GPU is left waiting.
IN_A_ROW = 2


class Waited(NamedTuple):
    """GPUs x cells, in milliseconds: free while jobs waited, and of it what these could have used,
    at least and at most.
    """

    free_ms: Ints
    low_ms: Ints
    high_ms: Ints


def waited(free_ms: Floats, whole: Mask, pending: Floats) -> Waited:
    """`free_ms`: how long each GPU was free in each cell; `whole`: where all GPUs of its node were;
    `pending`: GPUs that the queue waits for, by cell, NaN = not told: then nothing is said."""
    is_left = in_a_row((pending > 0) & (free_ms.sum(axis=0) > 0))
    demand = np.where(is_left, np.nan_to_num(pending) * CELL_MS, 0.0)
    sure = np.where(whole, free_ms, 0.0)
    low = _filled(sure, demand)
    # whole nodes are filled first, what is left of the demand goes to single GPUs
    high = low + _filled(free_ms - sure, np.maximum(demand - sure.sum(axis=0), 0.0))
    free = np.where(is_left, free_ms, 0.0)
    return Waited(*(np.floor(values).astype(np.int64) for values in (free, low, high)))


def in_a_row(hits: Mask) -> Mask:
    """The hits that belong to IN_A_ROW and more cells in a row."""
    together: Mask = hits & (np.pad(hits, (1, 0))[:-1] | np.pad(hits, (0, 1))[1:])
    return together


def _filled(free_ms: Floats, demand_ms: Floats) -> Floats:
    """What the demand takes of each GPU's free time: all alike, and no more than there is."""
    total = free_ms.sum(axis=0)
    share: Floats = np.minimum(
        np.divide(demand_ms, total, out=np.zeros_like(total), where=total > 0), 1.0
    )
    return free_ms * share
