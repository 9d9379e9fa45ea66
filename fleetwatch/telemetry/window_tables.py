"""Tables of windows and host samples as numpy columns: joined, sorted, each key once. Pure."""

import itertools
import math
import operator
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from fleetwatch.lib.array_types import Array, Floats, Mask, Places
from fleetwatch.telemetry.codec import repeated

# Whole-number columns come first, then float64 columns by the wire's names.
Table = dict[str, Array]
_MISSING = np.full(1, np.nan)
Columns = Sequence[Array]  # of one name, by part
Run = tuple[int, int, slice]  # GPU, number of a part, rows of it

WINDOW_KEYS = ("gpu_id", "start_ms", "boot_start_ms", "sequence")
WINDOW_INTS = (*WINDOW_KEYS, "window_ms", "observed_ms")
HOST_KEYS = ("start_ms", "boot_start_ms", "sequence")
HOST_INTS = (*HOST_KEYS, "window_ms")
# Of the processes that a window's batch lists on its GPU: how many are zombies, dead or stuck.
DEAD_PROCESSES = "dead_process_count"


def joined(parts: Sequence[Table], *, ints: Sequence[str], keys: Sequence[str]) -> Table:
    """The rows of all parts, sorted by `keys`, each key once: of equal ones the row of the earliest
    part.

    A float column that a part does not have is NaN there; the `ints` are in every part.
    """
    names = dict.fromkeys([*ints, *(name for part in parts for name in part)])
    tables = [_sorted_once(part, keys) for part in parts if len(part["start_ms"])]
    if not tables:
        return {name: np.zeros(0, np.int64 if name in ints else np.float64) for name in names}
    columns = {name: [_column(table, name) for table, _ in tables] for name in names}
    if len(tables) == 1:
        return {name: values for name, (values,) in columns.items()}
    runs = _in_turn(tables)
    if runs is None:
        return _sorted_once(_stacked(columns, None), keys)[0]
    return _stacked(columns, runs)


def _column(table: Table, name: str) -> Array:
    """The table's column; one value all over, which takes no memory, where it has none."""
    return table[name] if name in table else repeated(_MISSING, len(table["start_ms"]))


def float_column(table: Table, name: str) -> Floats:
    """The table's column; NaN where it has none of that name."""
    return table[name] if name in table else np.full(len(table["start_ms"]), np.nan)


def select_rows(table: Table, rows: Mask | Places) -> Table:
    """The rows that a mask or an index names."""
    return {name: values[rows] for name, values in table.items()}


def started_in(table: Table, start_ms: int, end_ms: int) -> Table:
    """The rows that start in [start_ms, end_ms)."""
    starts = table["start_ms"]
    return (
        table
        if _are_in(starts, start_ms, end_ms)
        else select_rows(table, (starts >= start_ms) & (starts < end_ms))
    )


def overlapping(table: Table, start_ms: int, end_ms: int) -> Table:
    """The rows that cover a millisecond of [start_ms, end_ms)."""
    starts = table["start_ms"]
    if _are_in(starts, start_ms, end_ms):
        return table
    return select_rows(table, (starts < end_ms) & (starts + table["window_ms"] > start_ms))


def _are_in(starts: Array, start_ms: int, end_ms: int) -> bool:
    return len(starts) == 0 or bool(starts.min() >= start_ms and starts.max() < end_ms)


def edges(table: Table) -> Places | None:
    """Where each GPU's rows begin, and where the last one's end, when rows ascend by GPU and start
    and none is there twice; else None.

    Nearly every node's hour does.
    """
    gpu = table["gpu_id"]
    starts = table["start_ms"]
    if len(gpu) == 0:
        return np.zeros(1, dtype=np.intp)
    turns = np.flatnonzero(gpu[1:] != gpu[:-1]) + 1
    falls = np.flatnonzero(starts[1:] <= starts[:-1]) + 1
    begins = np.concatenate([[0], turns, [len(gpu)]])
    is_ascending = (gpu[begins[1:-1]] > gpu[begins[:-2]]).all() and (
        np.array_equal(falls, turns) or np.isin(falls, turns).all()
    )
    return begins if is_ascending else None


def without_empty(table: Table, keep: Sequence[str]) -> Table:
    """The table without the columns that hold no value at all, but those in `keep`."""
    return {
        name: values for name, values in table.items() if name in keep or not np.isnan(values).all()
    }


def _in_turn(tables: Sequence[tuple[Table, Places | None]]) -> list[Run] | None:
    """Runs of rows that one after the other are all rows sorted, each key once; None where only
    sorting tells.

    So it is where each part begins after the one before it ended: chunks of a node, and what came
    since.
    """
    runs: list[Run] = []
    newest = -math.inf
    for number, (part, bounds) in enumerate(tables):
        starts = part["start_ms"]
        if bounds is None or starts[bounds[:-1]].min() <= newest:
            return None
        newest = starts[bounds[1:] - 1].max()
        runs += _runs_of(number, part, bounds)
    # stable: within a GPU the parts stay in order
    return sorted(runs, key=operator.itemgetter(0))


def _runs_of(number: int, part: Table, bounds: Places) -> Iterator[Run]:
    groups = part["gpu_id"][bounds[:-1]].tolist() if "gpu_id" in part else [0]
    for gpu, span in zip(groups, itertools.pairwise(bounds.tolist()), strict=True):
        yield gpu, number, slice(*span)


def _stacked(columns: Mapping[str, Columns], runs: Sequence[Run] | None) -> Table:
    return {name: _end_to_end(values, runs) for name, values in columns.items()}


def _end_to_end(columns: Columns, runs: Sequence[Run] | None) -> Array:
    """The runs of the columns (None: all of them), one after the other; one value all over takes no
    memory, as where it was unpacked.
    """
    is_one_value = all(values.strides == (0,) for values in columns)
    if is_one_value and len({values[:1].tobytes() for values in columns}) == 1:
        return repeated(columns[0][:1], sum(map(len, columns)))
    return np.concatenate(
        columns if runs is None else [columns[number][rows] for _, number, rows in runs]
    )


def _sorted_once(table: Table, keys: Sequence[str]) -> tuple[Table, Places | None]:
    """The rows sorted, each key once; and where each GPU's begin (of host samples: all), None where
    a GPU has two of one start.
    """
    if (bounds := _bounds(table, keys)) is not None:
        return table, bounds
    # batch after batch, in each GPU after GPU: that is in order within each GPU, nearly always
    if "gpu_id" in keys:
        order = np.argsort(table["gpu_id"], kind="stable")
        by_gpu = {key: table[key][order] for key in ("gpu_id", "start_ms")}
        if (bounds := edges(by_gpu)) is not None:
            return select_rows(table, order), bounds
    table = select_rows(table, _firsts_in_order(table, keys))
    return table, _bounds(table, keys)


def _firsts_in_order(table: Table, keys: Sequence[str]) -> Places:
    """Where the rows stand in order, of those with the same keys the first."""
    order = np.lexsort([table[key] for key in reversed(keys)])  # stable
    is_repeat = np.ones(len(order) - 1, dtype=np.bool_)
    for key in keys:
        values = table[key][order]
        is_repeat &= values[1:] == values[:-1]
    firsts: Places = order[np.append(True, ~is_repeat)]
    return firsts


def _bounds(table: Table, keys: Sequence[str]) -> Places | None:
    """As `edges`; of host samples the beginning and the end, where they ascend by start."""
    if "gpu_id" in keys:
        return edges(table)
    starts = table["start_ms"]
    return np.array([0, len(starts)], dtype=np.intp) if (starts[1:] > starts[:-1]).all() else None
