"""Five-minute cells for heat maps: windows to one byte per GPU, metric and cell. Pure."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetwatch.telemetry.window_tables import Table, edges, float_column, select_rows

CELL_MS = 300_000
CELLS_PER_DAY = 288
DAY_MS = CELL_MS * CELLS_PER_DAY
MISSING = 255
TOP = 250

# The signal of activity, first that was read (docs/ledger.md).
ACTIVITY = ("util_mean", "gr_engine_active", "sm_active", "process_sm_ratio")
# The columns that cells are made of.
COLUMNS = (*ACTIVITY, "power_w", "memory_used_bytes")

Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]


UTIL = "util"  # time-weighted mean of the activity signal
POWER = "power"  # watts, not a ratio: a limit that changes later must not change the past
MEMORY = "memory"  # used memory by the GPU's total
# What one step of a cell's byte is worth: a byte b of 0 to 250 means b * step, ratios and watts (up
# to 2,000).
STEPS = {UTIL: 1 / TOP, POWER: 8.0, MEMORY: 1 / TOP}


def winners(table: Table) -> Table:
    """One window per GPU and start: with a readable activity signal, then better observed, then of
    the later batch.
    """
    if edges(table) is not None:
        return table
    readable = ~np.isnan(activity(table))
    fraction = table["observed_ms"] / table["window_ms"]
    order = np.lexsort(
        [
            table["sequence"],
            table["boot_start_ms"],
            fraction,
            readable,
            table["start_ms"],
            table["gpu_id"],
        ]
    )
    gpu = table["gpu_id"][order]
    start = table["start_ms"][order]
    is_last = np.append((gpu[1:] != gpu[:-1]) | (start[1:] != start[:-1]), True)
    return select_rows(table, order[is_last])


def activity(table: Table) -> Floats:
    """The first activity signal that was read, 0 to 1; NaN where none was."""
    signal = np.full(len(table["start_ms"]), np.nan)
    for name in ACTIVITY:
        if name in table:
            signal = np.where(np.isnan(signal), table[name], signal)
    return signal


def bytes_of(
    table: Table, *, start_ms: int, count: int, memory_bytes: Mapping[int, int | None]
) -> tuple[list[int], dict[str, Bytes]]:
    """GPU ids, and per metric their (GPUs x count) bytes for the cells from `start_ms` on.

    A window counts where it starts, by its observed milliseconds. `memory_bytes`
    is each GPU's total; where it is None the memory cells are missing.
    """
    table = winners(table)
    gpus, rows = np.unique(table["gpu_id"], return_inverse=True)
    gpu_ids: list[int] = gpus.tolist()
    places = rows * count + (table["start_ms"] - start_ms) // CELL_MS
    totals = np.array([memory_bytes.get(gpu) or np.nan for gpu in gpu_ids], dtype=np.float64)
    size = (len(gpu_ids), count)
    return gpu_ids, {
        metric: _bytes(_means(values, table["observed_ms"], places, size), STEPS[metric])
        for metric, values in _signals(table, totals[rows]).items()
    }


def _signals(table: Table, memory_bytes: Floats) -> dict[str, Floats]:
    return {
        UTIL: activity(table),
        POWER: float_column(table, "power_w"),
        MEMORY: float_column(table, "memory_used_bytes") / memory_bytes,
    }


def stretched(values: Floats, *, first_ms: int, start_ms: int, end_ms: int, count: int) -> Floats:
    """GPUs x `count` equal steps of [start_ms, end_ms) from GPUs x cells that begin at `first_ms`.

    The mean of the observed cells that start in a step; of a step without a start, the cell around
    it.
    """
    low, high = _cells_of_steps(start_ms - first_ms, end_ms - first_ms, count)
    observed = ~np.isnan(values)
    sums = partial(_sums, low=low, high=high)
    if (high - low == high[0] - low[0]).all() and (low[1:] == high[:-1]).all():  # side by side
        sums = partial(_sums_of_equal_parts, low=low, high=high)
    counts = sums(observed.astype(np.int32))
    means = np.full(counts.shape, np.nan)
    np.divide(sums(np.where(observed, values, 0.0)), counts, out=means, where=counts > 0)
    return means


def _cells_of_steps(start_ms: int, end_ms: int, count: int) -> tuple[Places, Places]:
    """The cells [low, high) that start in each of the steps of [start_ms, end_ms), or the one
    around it; the first cell begins at 0.
    """
    edges = start_ms + (end_ms - start_ms) * np.arange(count + 1) // count
    low = edges[:-1] // CELL_MS
    low += (edges[:-1] % CELL_MS != 0) & (edges[1:] > (low + 1) * CELL_MS)
    return low, np.maximum(low + 1, -(-edges[1:] // CELL_MS))


def _sums(values: NDArray[Any], low: Places, high: Places) -> NDArray[Any]:
    """Each row's columns [low, high), summed."""
    sums: Floats = np.hstack([np.zeros((len(values), 1)), np.cumsum(values, axis=1)])
    difference: Floats = sums[:, high] - sums[:, low]
    return difference


def _sums_of_equal_parts(values: NDArray[Any], low: Places, high: Places) -> NDArray[Any]:
    parts = values[:, low[0] : high[-1]].reshape(len(values), len(low), high[0] - low[0])
    sums = parts[:, :, 0].copy()
    for place in range(1, parts.shape[2]):
        sums += parts[:, :, place]  # much faster than to sum along an axis that is so short
    return sums


def _means(values: Floats, weights: Places, places: Places, size: tuple[int, int]) -> Floats:
    """Weighted means per place; NaN where nothing was observed."""
    read = ~np.isnan(values) & (weights > 0)
    places = places[read]
    weights = weights[read]
    length = size[0] * size[1]
    weight = np.bincount(places, weights, length)
    total = np.bincount(places, values[read] * weights, length)
    means = np.full(length, np.nan)
    np.divide(total, weight, out=means, where=weight > 0)
    return means.reshape(size)


def _bytes(means: Floats, step: float) -> Bytes:
    steps = np.clip(np.rint(means / step), 0, TOP)
    return np.where(np.isnan(steps), MISSING, steps).astype(np.uint8)
