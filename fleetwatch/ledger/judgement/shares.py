"""Splitting whole milliseconds without losing one: holders first, then states. Pure numpy."""

import numpy as np

from fleetwatch.ledger.judgement.observations import Floats, Ints, Mask

MAX_BYTE = 127  # columns whose places are bytes: adding these costs next to nothing
NOTHING = 1e-9  # of a share: what floating point leaves of 1 - 0.25 - 0.25 - 0.5


def largest_remainder(total: Ints, weights: Floats) -> Ints:
    """Whole parts of each total (rows) in proportion to the weights (columns, summing to 1); they
    sum to the total.

    What rounding down leaves goes to the largest remainders, of equal ones to the first column.
    """
    exact = weights.T * total  # a column at a time: a few long rows are faster than many short ones
    whole = np.floor(exact)
    parts: Ints = whole.astype(np.int64)
    places = np.int8 if len(parts) <= MAX_BYTE else np.int32
    left = (total - parts.sum(axis=0)).astype(places)
    # equal shares stay equal: no tie is decided by the last bit
    remainder = exact
    remainder -= whole
    remainder *= 1e6
    np.rint(remainder, out=remainder)
    place = np.zeros(parts.shape, dtype=places)
    for first in range(len(parts)):
        for other in range(first + 1, len(parts)):
            is_before = remainder[first] >= remainder[other]
            place[other] += is_before
            place[first] += ~is_before
    parts += place < left
    return parts.T


def split_holders(total: Ints, holds: Mask, shares: Floats) -> Ints:
    """Cells x (holders + the rest that none was granted): whole milliseconds, summing to each
    cell's total.

    `holds` and `shares` are holders x cells, of cells that somebody holds; NaN = not known. Any
    unknown share among a cell's holders makes all equal; more than 1 in sum is normalised; less
    leaves a rest.
    """
    return largest_remainder(total, _weights(holds, shares))


def _weights(holds: Mask, shares: Floats) -> Floats:
    """Cells x (holders + the rest), summing to 1 in each cell."""
    any_unknown = (holds & np.isnan(shares)).any(axis=0)
    granted = holds * np.nan_to_num(shares)
    granted = granted / np.maximum(granted.sum(axis=0), 1.0)
    held = np.where(any_unknown, holds / holds.sum(axis=0), granted)
    rest = np.maximum(1.0 - held.sum(axis=0), 0.0)
    rest[any_unknown | (rest < NOTHING)] = 0.0
    return np.vstack([held, rest]).T
