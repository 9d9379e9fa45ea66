"""Tables of windows and host samples as numpy columns: joined, sorted, each key once. Pure."""

import itertools
import math
import operator
from collections.abc import Sequence

import numpy as np

from fleetwatch.lib.array_types import Array, Floats, Ints, Mask, Places
from fleetwatch.telemetry.codec import repeated

# Whole-number columns come first, then float64 columns by the wire's names.
Table = dict[str, Array]
_MISSING = np.full(1, np.nan)
_NOBODY = np.zeros(1, dtype=np.int64)
Columns = Sequence[Array]  # of one name, by part
Run = tuple[int, int, slice]  # GPU, number of a part, rows of it

# What a row is sorted by, and known by; host samples are of no GPU.
KEYS = ("gpu_id", "start_ms", "boot_start_ms", "sequence")
WINDOW_INTS = (*KEYS, "window_ms", "observed_ms")
HOST_INTS = (*KEYS[1:], "window_ms")
# Of the processes that a window's batch lists on its GPU: how many are zombies, dead or stuck.
DEAD_PROCESSES = "dead_process_count"


def joined(parts: Sequence[Table]) -> Table:
    """The rows of all parts, sorted by their KEYS, each key once: of equal ones the row of the
    earliest part.

    A float column that a part does not have is NaN there; the whole numbers are in every part.
    """
    tables = [_sorted_once(part) for part in parts if len(part["start_ms"])]
    if not tables:
        return {name: values for part in parts for name, values in part.items()}
    names = dict.fromkeys(name for part in parts for name in part)
    columns = {name: [_column(table, name) for table, _ in tables] for name in names}
    if len(tables) == 1:
        return {name: values for name, (values,) in columns.items()}
    runs = _in_turn(tables)
    table = {name: _end_to_end(values, runs) for name, values in columns.items()}
    return table if runs else _sorted_once(table)[0]


def end_to_end(tables: Sequence[Table]) -> Table:
    """The rows of one table after the other."""
    names = dict.fromkeys(name for table in tables for name in table)
    return {name: _end_to_end([_column(table, name) for table in tables], None) for name in names}


def _column(table: Table, name: str) -> Array:
    """The table's column; one value all over, which takes no memory, where it has none."""
    return table[name] if name in table else repeated(_MISSING, len(table["start_ms"]))


def float_column(table: Table, name: str) -> Floats:
    """The table's column; NaN all over, which takes no memory, where it has none of that name."""
    return _column(table, name)


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


def begins_after(later: Table, earlier: Table) -> bool:
    """Whether the rows of the one, of which there are some, all start after those of the other; of
    nothing none does.
    """
    starts = earlier["start_ms"]
    return len(starts) > 0 and bool(later["start_ms"].min() > starts.max())


def _are_in(starts: Array, start_ms: int, end_ms: int) -> bool:
    return len(starts) == 0 or bool(starts.min() >= start_ms and starts.max() < end_ms)


def edges(table: Table) -> Places | None:
    """Where each GPU's rows begin, and where the last one's end, when rows ascend by GPU and start
    and none is there twice; else None.

    Nearly every node's hour does.
    """
    gpu = _gpus(table)
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


def _gpus(table: Table) -> Ints:
    """Whose each row is; host samples are all of nobody."""
    return table["gpu_id"] if "gpu_id" in table else repeated(_NOBODY, len(table["start_ms"]))


def without_empty(table: Table) -> Table:
    """The table without the columns that hold no value at all."""
    return {
        name: values
        for name, values in table.items()
        if values.dtype == np.int64 or not np.isnan(values).all()
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
        gpus = _gpus(part)[bounds[:-1]].tolist()
        spans = itertools.pairwise(bounds.tolist())
        runs += [(gpu, number, slice(*span)) for gpu, span in zip(gpus, spans, strict=True)]
    # stable: within a GPU the parts stay in order
    return sorted(runs, key=operator.itemgetter(0))


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


def _sorted_once(table: Table) -> tuple[Table, Places | None]:
    """The rows sorted, each key once; and where each GPU's begin, None where a GPU has two of one
    start.
    """
    if (bounds := edges(table)) is not None:
        return table, bounds
    # batch after batch, in each GPU after GPU: that is in order within each GPU, nearly always
    gpus = _gpus(table)
    order = np.argsort(gpus, kind="stable")
    bounds = edges({"gpu_id": gpus[order], "start_ms": table["start_ms"][order]})
    if bounds is not None:
        return select_rows(table, order), bounds
    table = select_rows(table, _firsts_in_order(table))
    return table, edges(table)


def _firsts_in_order(table: Table) -> Places:
    """Where the rows stand in order, of those with the same keys the first."""
    keys = [table[key] for key in KEYS if key in table]
    order = np.lexsort(keys[::-1])  # stable
    is_repeat = np.ones(len(order) - 1, dtype=np.bool_)
    for values in keys:
        is_repeat &= values[order[1:]] == values[order[:-1]]
    firsts: Places = order[np.append(True, ~is_repeat)]
    return firsts
