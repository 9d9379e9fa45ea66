"""Five-minute cells for heat maps: windows to one byte per GPU, metric and cell. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetwatch.telemetry.window_tables import Table, edges, select_rows

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


@dataclass(frozen=True, slots=True)
class Metric:
    """What one step of a cell's byte is worth: a byte b of 0 to 250 means b * step."""

    name: str
    unit: str
    step: float


UTIL = Metric("util", "ratio", 1 / TOP)  # time-weighted mean of the activity signal
# watts, not a ratio: a limit that changes later must not change the past; up to 2,000 W
POWER = Metric("power", "W", 8.0)
MEMORY = Metric("memory", "ratio", 1 / TOP)  # used memory by the GPU's total
METRICS = (UTIL, POWER, MEMORY)


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
    is_last = (
        np.append((gpu[1:] != gpu[:-1]) | (start[1:] != start[:-1]), True)
        if len(order)
        else np.zeros(0, dtype=np.bool_)
    )
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
    gpu_ids, rows = np.unique(table["gpu_id"], return_inverse=True)
    places = rows * count + (table["start_ms"] - start_ms) // CELL_MS
    totals = np.array([memory_bytes.get(int(gpu)) or np.nan for gpu in gpu_ids], dtype=np.float64)
    values = {
        UTIL: activity(table),
        POWER: _column(table, "power_w"),
        MEMORY: _column(table, "memory_used_bytes") / totals[rows],
    }
    size = (len(gpu_ids), count)
    made = {
        metric.name: _bytes(_means(column, table["observed_ms"], places, size), metric)
        for metric, column in values.items()
    }
    return [int(gpu) for gpu in gpu_ids], made


def stretched(values: Floats, *, first_ms: int, start_ms: int, end_ms: int, count: int) -> Floats:
    """GPUs x `count` equal steps of [start_ms, end_ms) from GPUs x cells that begin at `first_ms`.

    The mean of the observed cells that start in a step; of a step without a start, the cell around
    it.
    """
    edges = start_ms + (end_ms - start_ms) * np.arange(count + 1) // count
    low = (edges[:-1] - first_ms) // CELL_MS
    low += ((edges[:-1] - first_ms) % CELL_MS != 0) & (edges[1:] > first_ms + (low + 1) * CELL_MS)
    high = np.maximum(low + 1, -(-(edges[1:] - first_ms) // CELL_MS))
    observed = ~np.isnan(values)
    read = np.where(observed, values, 0.0)
    seen = observed.astype(np.int32)
    # steps side by side
    if (high - low == high[0] - low[0]).all() and (low[1:] == high[:-1]).all():
        total, observed_cells = (_sums(each[:, low[0] : high[-1]], count) for each in (read, seen))
    else:
        total, observed_cells = (
            _running(each)[:, high] - _running(each)[:, low] for each in (read, seen)
        )
    means = np.full(total.shape, np.nan)
    np.divide(total, observed_cells, out=means, where=observed_cells > 0)
    return means


def _sums(values: NDArray[Any], count: int) -> NDArray[Any]:
    """Each row's columns in `count` equal parts, summed."""
    parts = values.reshape(len(values), count, values.shape[1] // count)
    sums = parts[:, :, 0].copy()
    for place in range(1, parts.shape[2]):
        sums += parts[:, :, place]  # much faster than to sum along an axis that is so short
    return sums


def _running(values: NDArray[Any]) -> Floats:
    return np.hstack([np.zeros((len(values), 1)), np.cumsum(values, axis=1)])


def _column(table: Table, name: str) -> Floats:
    return table[name] if name in table else np.full(len(table["start_ms"]), np.nan)


def _means(
    values: Floats, weights: NDArray[np.int64], places: NDArray[np.int64], size: tuple[int, int]
) -> Floats:
    """Weighted means per place; NaN where nothing was observed."""
    read = ~np.isnan(values) & (weights > 0)
    length = size[0] * size[1]
    weight = np.bincount(places[read], weights=weights[read], minlength=length)
    total = np.bincount(places[read], weights=values[read] * weights[read], minlength=length)
    means = np.full(length, np.nan)
    np.divide(total, weight, out=means, where=weight > 0)
    return means.reshape(size)


def _bytes(means: Floats, metric: Metric) -> Bytes:
    steps = np.clip(np.rint(means / metric.step), 0, TOP)
    return np.where(np.isnan(steps), MISSING, steps).astype(np.uint8)
