"""Cells of a map as bytes: a map of a hundred thousand cells is small on its way and quickly read.
Pure.
"""

from base64 import b64encode
from typing import Any

import numpy as np
from numpy.typing import NDArray

UNKNOWN = 255  # what nobody knows: a hole in the map
# of a metric, from nothing (0) to the most (250): as day matrices keep them (telemetry/heat_cells)
SHADES = 250

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Numbers = NDArray[np.uint8]


def of_places(places: Ints) -> Numbers:
    """Cells that are places in a list; negative ones are not known."""
    return np.where(places < 0, UNKNOWN, places).astype(np.uint8)


def of_shares(values: Floats, most: float) -> Numbers:
    """Cells that are shares of the most, to a shade of it; NaN is not known."""
    is_known = ~np.isnan(values)
    shares = np.where(is_known, values, 0.0) / (most or 1.0)
    shades = np.rint(np.clip(shares, 0.0, 1.0) * SHADES)
    return np.where(is_known, shades, UNKNOWN).astype(np.uint8)


def packed(numbers: Numbers) -> dict[str, Any]:
    """Rows x columns as Plotly's typed arrays are written: charts.js makes rows of them."""
    rows, columns = numbers.shape
    return {
        "bdata": b64encode(numbers.tobytes()).decode(),
        "dtype": "u1",
        "shape": f"{rows}, {columns}",
    }
