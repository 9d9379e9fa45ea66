"""Windows -> evenly spaced points for a chart. Pure numpy; a step without a reading stays empty."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def resample(starts_ms: Ints, observed_ms: Ints, values: Floats, *, first_ms: int, last_ms: int, step_ms: int) -> list[float | None]:
    """The mean per step of [first_ms, last_ms), weighted by how long each window was observed; None = nothing was read.

    A window counts in the step it starts in, so a step must not be shorter than a window.
    """
    count = -(-(last_ms - first_ms) // step_ms)
    wanted = (starts_ms >= first_ms) & (starts_ms < last_ms) & ~np.isnan(values) & (observed_ms > 0)
    where = (starts_ms[wanted] - first_ms) // step_ms
    weights = np.bincount(where, weights=observed_ms[wanted], minlength=count)
    sums = np.bincount(where, weights=values[wanted] * observed_ms[wanted], minlength=count)
    means = np.divide(sums, weights, out=np.full(count, np.nan), where=weights > 0)
    return [None if np.isnan(mean) else round(float(mean), 5) for mean in means]
