"""Hot batches: found by their marks, decoded into tables."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import starmap

import numpy as np

from agent import wire
from fleetwatch.lib import rows
from fleetwatch.lib.array_types import Array, Mask, Places
from fleetwatch.lib.intervals import from_ms
from fleetwatch.lib.sql import read_statement
from fleetwatch.telemetry import batch_columns
from fleetwatch.telemetry.batch_columns import BatchRow
from fleetwatch.telemetry.window_tables import Table

MARKED = read_statement("telemetry/sql/marked_batches.sql")


@dataclass(frozen=True, slots=True)
class Decoded:
    """The batches' GPU windows and host samples, in the order given, times corrected."""

    windows: Table
    host: Table


def marked(
    node_ids: Sequence[int], hour_starts_ms: Iterable[int], *, ends_after_ms: int = 0
) -> dict[int, list[BatchRow]]:
    """Of each node the batches that still have windows to seal in these hours and end after that
    moment.
    """
    batches: dict[int, list[BatchRow]] = {node_id: [] for node_id in node_ids}
    asked = {
        "nodes": list(node_ids),
        "hours": [from_ms(start) for start in hour_starts_ms],
        "ends_after_ms": ends_after_ms,
    }
    for batch in starmap(BatchRow, rows.fetched(MARKED, asked)):
        batches[batch.node_id].append(batch)
    return batches


def decode(batches: Sequence[BatchRow], columns: Sequence[str] | None) -> Decoded:
    """Windows with those of the named float columns (None: of the wire's) that a batch has, host
    samples with all of theirs.
    """
    return decode_each([batches], columns, None)[0]


def decode_each(
    groups: Iterable[Sequence[BatchRow]],
    columns: Sequence[str] | None,
    host_columns: Sequence[str] | None,
) -> list[Decoded]:
    """One result for each group of batches, host samples too with those of the named columns alone;
    else as `decode`.
    """
    opened = [[batch_columns.opened(row) for row in batches] for batches in groups]
    every = [body for group in opened for body in group]
    windows = batch_columns.windows(
        every, _gpu_ids(batch_columns.uuids(every)), _named(wire.WINDOW_COLUMNS, columns)
    )
    host = batch_columns.host(every, _named(wire.HOST_COLUMNS, host_columns))
    return list(
        map(
            Decoded,
            _parted(windows, map(batch_columns.window_count, opened)),
            _parted(host, map(batch_columns.host_count, opened)),
        )
    )


def _named(columns: Sequence[str], names: Sequence[str] | None) -> Sequence[str]:
    """Those of the columns that are named; None: all of them."""
    return columns if names is None else [name for name in names if name in columns]


def _parted(table: Table, counts: Iterable[int]) -> Iterator[Table]:
    """The table's rows in portions of so many, one after the other; a column without a value in a
    portion is not in it.
    """
    sizes = np.array(list(counts), dtype=np.int64)
    ends = np.cumsum(sizes)
    starts = ends - sizes
    is_there = {name: _has_values(values, starts, sizes) for name, values in table.items()}
    for place, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        yield {name: values[start:end] for name, values in table.items() if is_there[name][place]}


def _has_values(values: Array, starts: Places, sizes: Places) -> Mask:
    """Whether there are any in each of the portions; where one portion is all, they are in it."""
    is_all: Mask = sizes == len(values)
    if values.dtype == np.int64:
        return np.ones(len(sizes), dtype=np.bool_)
    if is_all.any():
        return is_all
    is_filled = sizes > 0
    has_values: Mask = is_filled.copy()
    has_values[is_filled] = np.logical_or.reduceat(~np.isnan(values), starts[is_filled])
    return has_values


def _gpu_ids(uuids: dict[batch_columns.Naming, list[str]]) -> dict[batch_columns.Naming, list[int]]:
    """The ids of each node's own rows of its GPUs, by what its batches say of them: where a GPU is
    now does not matter.
    """
    if not uuids:
        return {}
    nodes = sorted({node_id for node_id, _ in uuids})
    wanted = sorted({uuid for named in uuids.values() for uuid in named})
    gpus = rows.fetched(
        "SELECT node_id, uuid, id FROM inventory_gpu WHERE node_id = ANY(%s) AND uuid = ANY(%s)",
        [nodes, wanted],
    )
    ids = {(node_id, uuid): gpu_id for node_id, uuid, gpu_id in gpus}
    return {
        (node_id, text): [ids[node_id, uuid] for uuid in named]
        for (node_id, text), named in uuids.items()
    }
