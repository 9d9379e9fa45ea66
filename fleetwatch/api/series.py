"""Windows of one GPU -> evenly spaced points. Pure numpy; a step in which nothing was read stays a gap."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def points(
    start_ms: Ints, end_ms: Ints, observed_ms: Ints, values: Floats, *, first_ms: int, last_ms: int, step_ms: int, how: str
) -> Floats:
    """One value per step of [first_ms, last_ms): the mean of what was observed, or the max or min; NaN = a gap.

    A window counts in every step it overlaps, weighted by the overlap and by how much of it was observed.
    """
    count = -(-(last_ms - first_ms) // step_ms)
    read = ~np.isnan(values) & (observed_ms > 0) & (end_ms > first_ms) & (start_ms < last_ms)
    start, end, observed, value = start_ms[read], end_ms[read], observed_ms[read], values[read]
    low = np.maximum(start - first_ms, 0) // step_ms
    high = np.minimum((end - 1 - first_ms) // step_ms, count - 1)
    parts = high - low + 1
    row = np.repeat(np.arange(len(start)), parts)
    step = low[row] + np.arange(len(row)) - np.repeat(np.cumsum(parts) - parts, parts)
    if how != "mean":
        return _extreme(step, value[row], count, np.fmax if how == "max" else np.fmin)
    begins = first_ms + step * step_ms
    overlap_ms = np.minimum(end[row], begins + step_ms) - np.maximum(start[row], begins)
    weight = overlap_ms * (observed[row] / (end - start)[row])
    weights = np.bincount(step, weights=weight, minlength=count)
    sums = np.bincount(step, weights=weight * value[row], minlength=count)
    means: Floats = np.divide(sums, weights, out=np.full(count, np.nan), where=weights > 0)
    return means


def _extreme(step: Ints, value: Floats, count: int, pick: np.ufunc) -> Floats:
    found = np.full(count, np.nan)
    pick.at(found, step, value)
    return found


def fold(column: str) -> str:
    """How a column is drawn together: maxima by their maximum, minima by their minimum, all else by the mean."""
    if column.endswith("_max") or "_max_" in column:
        return "max"
    return "min" if column.endswith("_min") or "_min_" in column else "mean"


def to_json(values: Floats) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]
