"""What numpy has no word for: quotients, sums over windows, rows by id. Pure."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetwatch.ledger.judgement.observations import Floats, Ints


def ratio(over: NDArray[Any], under: NDArray[Any]) -> Floats:
    """over ÷ under; NaN where under is not above 0."""
    nothing = np.full(np.shape(over), np.nan)
    result: Floats = np.divide(over, under, out=nothing, where=under > 0)
    return result


def starts(values: NDArray[Any]) -> Ints:
    """Where each stretch of one value begins; none of them is negative."""
    return np.flatnonzero(np.diff(values, prepend=-1))


def windowed(values: Floats, length: int) -> Floats:
    """Sum over each cell and the `length` - 1 before it."""
    total = np.cumsum(values, axis=1)
    window = np.empty_like(total)
    window[:, :length] = total[:, :length]
    np.subtract(total[:, length:], total[:, :-length], out=window[:, length:])
    return window


def extreme(values: NDArray[Any], length: int, passing: Any) -> NDArray[Any]:
    """Largest (fmax) or smallest (fmin) over the last `length` cells: doubled widths instead of a
    loop.
    """
    best = values.copy()
    width = 1
    while width < length:
        step = min(width, length - width)
        best[:, step:] = passing(best[:, step:], best[:, :-step].copy())
        width += step
    return best


def rows_among(ids: Ints, wanted: Ints) -> Ints:
    """Where each of the wanted stands among the ids, which ascend; their number where it is none
    of them.
    """
    row = np.searchsorted(ids, wanted)
    row[np.append(ids, -1)[row] != wanted] = len(ids)
    return row
