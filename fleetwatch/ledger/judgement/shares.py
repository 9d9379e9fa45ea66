"""Splitting whole milliseconds without losing one: holders first, then states. Pure numpy."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

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


def split_holders(
    total: Ints, *, holds: Sequence[Mask], shares: Sequence[Floats]
) -> tuple[list[Ints], Ints]:
    """Each holder's milliseconds of each cell, and the rest that no holder was granted.

    `shares` per holder and cell; NaN = not known. Any unknown share among a cell's holders
    makes all equal; more than 1 in sum is normalised; less leaves a rest. Without a
    holder the whole cell is rest.
    """
    if not holds:
        return [], total
    count = np.sum(holds, axis=0)
    parts = [total * mask for mask in holds]
    rest = total * (count == 0)
    shared = np.flatnonzero((count > 1) | _is_partial(holds, shares))
    if len(shared) == 0:
        return parts, rest
    weights = _weights(*(np.array([each[shared] for each in of]) for of in (holds, shares)))
    whole = largest_remainder(total[shared], weights)
    for part, own in zip([*parts, rest], whole.T, strict=True):
        part[shared] = own
    return parts, rest


def _is_partial(holds: Sequence[Mask], shares: Sequence[Floats]) -> Mask:
    """Where some holder was granted less than all."""
    partial = [mask & (share < 1) for mask, share in zip(holds, shares, strict=True)]
    return np.asarray(np.any(partial, axis=0))


def _weights(holds: NDArray[np.bool_], shares: Floats) -> Floats:
    """Cells x (holders + the rest), summing to 1 in each cell."""
    any_unknown = (holds & np.isnan(shares)).any(axis=0)
    granted = holds * np.nan_to_num(shares)
    granted = granted / np.maximum(granted.sum(axis=0), 1.0)
    held = np.where(any_unknown, holds / holds.sum(axis=0), granted)
    rest = np.maximum(1.0 - held.sum(axis=0), 0.0)
    rest[any_unknown | (rest < NOTHING)] = 0.0
    return np.vstack([held, rest]).T
