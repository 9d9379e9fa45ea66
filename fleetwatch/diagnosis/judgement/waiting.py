"""How much of the free GPU time could have been used by jobs that waited in the queue. Pure numpy.

Known is how many GPUs the whole queue waits for, not how many each job wants together. What fits
for sure are nodes of which every GPU is free; single free GPUs may be too few for any job that
waits: they count at most.
"""

from collections.abc import Sequence
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


def whole_nodes(free_ms: Floats, node_ids: Sequence[int]) -> Mask:
    """Where every GPU of its node was free all the time; `node_ids`: of each GPU."""
    whole = free_ms >= CELL_MS
    for node_id in np.unique(node_ids):
        rows = np.array(node_ids) == node_id
        whole[rows] = whole[rows].all(axis=0)
    return whole


def spread(
    row: Ints, start_ms: Floats, end_ms: Floats, share: Floats, size: tuple[int, int]
) -> Floats:
    """Rows x cells: how much of each cell the spans [start_ms, end_ms) of its row take, in
    milliseconds, each by its share; spans lie within the cells and have a length.
    """
    since = _after(row, start_ms, share, size)
    ended = _after(row, end_ms, share, size)
    return np.maximum(since - ended, 0.0)  # shares leave a rounding


def _after(row: Ints, at_ms: Floats, share: Floats, size: tuple[int, int]) -> Floats:
    """Rows x cells: how much of each cell lies behind these moments."""
    rows, count = size
    cell = (at_ms // CELL_MS).astype(np.int64)
    # one cell more than there are: where a moment is the end of all
    part = np.zeros((rows, count + 1))
    np.add.at(part, (row, cell), share * ((cell + 1) * CELL_MS - at_ms))
    whole = np.zeros((rows, count + 2))
    np.add.at(whole, (row, cell + 1), share * CELL_MS)
    behind: Floats = part[:, :count] + np.cumsum(whole, axis=1)[:, :count]
    return behind


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
