"""Five-minute cells for heat maps: windows to one byte per GPU, metric and cell. Pure."""

from collections.abc import Mapping

import numpy as np

from fleetwatch.lib.array_types import Array, Bytes, Floats, Ints
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
        metric: in_steps(_means(values, table["observed_ms"], places, size), STEPS[metric])
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
    edges = start_ms - first_ms + (end_ms - start_ms) * np.arange(count + 1) // count
    starts = -(-edges // CELL_MS)  # the first cell that starts at an edge or after it
    if end_ms - start_ms < count * CELL_MS:  # at most one starts in a step
        has_start = starts[:-1] * CELL_MS < edges[1:]
        return values[:, np.where(has_start, starts[:-1], edges[:-1] // CELL_MS)]
    return _means_of_parts(values[:, : starts[-1]], starts[:-1])


def stretched_bytes(cells: Bytes, *, per_step: int) -> Bytes:
    """The same for steps of so many whole cells, of bytes: the mean of the observed ones, to the
    nearest byte; MISSING where nothing was.
    """
    if per_step == 1:
        return cells
    of_steps = [cells[:, cell::per_step] for cell in range(per_step)]
    counts = np.zeros(of_steps[0].shape, dtype=np.uint16)
    # a day's 288 busy cells are 72,000: beyond 16 bits
    sums = np.zeros(of_steps[0].shape, dtype=np.uint32)
    for part in of_steps:
        observed = part != MISSING
        counts += observed
        sums += part * observed
    means = (sums + counts // 2) // np.maximum(counts, 1)
    return np.where(counts, means, MISSING).astype(np.uint8)


def _means_of_parts(values: Floats, starts: Ints) -> Floats:
    """Each row's means of what was observed, part by part; NaN where nothing was."""
    observed = ~np.isnan(values)
    counts = _sums_of_parts(observed.astype(np.int32), starts)
    return _divided(_sums_of_parts(np.where(observed, values, 0.0), starts), counts)


def _sums_of_parts(values: Array, starts: Ints) -> Array:
    """Each row's sums, part by part."""
    lengths = np.unique(np.diff(starts, append=values.shape[1]))
    if len(lengths) > 1:
        return np.add.reduceat(values, starts, axis=1)
    # mostly all are alike: their first cells and their next ones, each in one go
    first = int(starts[0])
    length = int(lengths[0])
    columns = (values[:, first + cell :: length] for cell in range(1, length))
    return sum(columns, values[:, first::length])


def _means(values: Floats, weights: Ints, places: Ints, size: tuple[int, int]) -> Floats:
    """Weighted means per place; NaN where nothing was observed."""
    read = ~np.isnan(values) & (weights > 0)
    places = places[read]
    weights = weights[read]
    length = size[0] * size[1]
    weight = np.bincount(places, weights, length)
    total = np.bincount(places, values[read] * weights, length)
    return _divided(total, weight).reshape(size)


def _divided(sums: Array, weights: Array) -> Floats:
    """The means; NaN where nothing was observed."""
    means = np.full(sums.shape, np.nan)
    np.divide(sums, weights, out=means, where=weights > 0)
    return means


def in_steps(means: Floats, step: float) -> Bytes:
    """Each to the nearest byte; MISSING where nothing was observed."""
    steps = np.clip(np.rint(means / step), 0, TOP)
    return np.where(np.isnan(steps), MISSING, steps).astype(np.uint8)
