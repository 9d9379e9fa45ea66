"""Tables of windows and host samples as numpy columns: joined, sorted, each key once. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Whole-number columns come first, then float64 columns by the wire's names.
Table = dict[str, NDArray[Any]]

WINDOW_KEYS = ("gpu_id", "start_ms", "boot_start_ms", "sequence")
WINDOW_INTS = (*WINDOW_KEYS, "window_ms", "observed_ms")
HOST_KEYS = ("start_ms", "boot_start_ms", "sequence")
HOST_INTS = (*HOST_KEYS, "window_ms")
# Of the processes that a window's batch lists on its GPU: how many are zombies, dead or stuck.
DEAD_PROCESSES = "dead_process_count"


def joined(parts: Iterable[Table], *, ints: Sequence[str], keys: Sequence[str]) -> Table:
    """The rows of all parts, sorted by `keys`, each key once: of equal ones the row of the earliest part.

    A float column that a part does not have is NaN there; the `ints` are in every part.
    """
    tables = list(parts)
    lengths = [len(part["start_ms"]) for part in tables]
    names = dict.fromkeys([*ints, *(name for part in tables for name in part)])
    return _sorted_once({name: _stacked(tables, lengths, name, is_int=name in ints) for name in names}, keys)


def taken(table: Table, rows: NDArray[np.bool_] | NDArray[np.intp]) -> Table:
    """The rows that a mask or an index names."""
    return {name: values[rows] for name, values in table.items()}


def started_in(table: Table, start_ms: int, end_ms: int) -> Table:
    """The rows that start in [start_ms, end_ms)."""
    starts = table["start_ms"]
    return taken(table, (starts >= start_ms) & (starts < end_ms))


def overlapping(table: Table, start_ms: int, end_ms: int) -> Table:
    """The rows that cover a millisecond of [start_ms, end_ms)."""
    starts = table["start_ms"]
    inside = (starts < end_ms) & (starts + table["window_ms"] > start_ms)
    return table if inside.all() else taken(table, inside)


def without_empty(table: Table, keep: Sequence[str]) -> Table:
    """The table without the columns that hold no value at all, but those in `keep`."""
    return {name: values for name, values in table.items() if name in keep or not np.isnan(values).all()}


def _stacked(tables: list[Table], lengths: list[int], name: str, *, is_int: bool) -> NDArray[Any]:
    if not tables:
        return np.zeros(0, dtype=np.int64 if is_int else np.float64)
    if is_int:
        return np.concatenate([part[name] for part in tables])
    return np.concatenate([part[name] if name in part else np.full(length, np.nan) for part, length in zip(tables, lengths, strict=True)])


def _sorted_once(table: Table, keys: Sequence[str]) -> Table:
    if len(table["start_ms"]) == 0:
        return table
    order = np.lexsort([table[key] for key in reversed(keys)])  # stable: the earliest part stays first
    is_repeat = np.ones(len(order) - 1, dtype=np.bool_)
    for key in keys:
        values = table[key][order]
        is_repeat &= values[1:] == values[:-1]
    if is_repeat.any():
        order = order[np.concatenate([[True], ~is_repeat])]
    elif (order[1:] > order[:-1]).all():
        return table
    return taken(table, order)
