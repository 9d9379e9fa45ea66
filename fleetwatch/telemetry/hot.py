"""Hot batches: found by their marks, decoded into tables."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from agent import wire
from fleetwatch.lib import rows
from fleetwatch.lib.array_types import Ints
from fleetwatch.lib.intervals import HOUR_MS, floor_hour_ms, from_ms
from fleetwatch.lib.spans import Span
from fleetwatch.lib.sql import read_statement
from fleetwatch.telemetry import batch_columns
from fleetwatch.telemetry.batch_columns import BatchRow, Body
from fleetwatch.telemetry.window_tables import Table

MARKED = read_statement("telemetry/sql/marked_batches.sql")


@dataclass(frozen=True, slots=True)
class Decoded:
    """The batches' GPU windows and host samples, in the order given, times corrected."""

    windows: Table
    host: Table


def marked(
    node_ids: Sequence[int],
    hour_starts_ms: Iterable[int],
    *,
    ends_after_ms: int = 0,
    without_payload: Iterable[int] = (),
) -> dict[int, list[BatchRow]]:
    """Of each node the batches that still have windows to seal in these hours and end after that
    moment; the payload of some of them, by id, is not wanted.
    """
    batches: dict[int, list[BatchRow]] = {node_id: [] for node_id in node_ids}
    asked = {
        "nodes": np.array(list(node_ids), dtype=np.int64),
        "hours": [from_ms(start) for start in hour_starts_ms],
        "ends_after_ms": ends_after_ms,
        "without_payload": np.array(list(without_payload), dtype=np.int64),
    }
    for batch in itertools.starmap(BatchRow, rows.fetched(MARKED, asked, is_fixed=True)):
        batches[batch.node_id].append(batch)
    return batches


def unsealed(
    node_ids: Sequence[int],
    within_ms: Span,
    columns: Sequence[str],
    host_columns: Sequence[str] = (),
    *,
    ends_after_ms: int,
) -> dict[int, Decoded]:
    """Of each node what is not sealed yet of the hours that the time touches, with those of the
    named columns that a batch has.
    """
    batches = marked(node_ids, hours_of(within_ms), ends_after_ms=ends_after_ms)
    return dict(zip(batches, decode_each(batches.values(), columns, host_columns), strict=True))


def unsealed_host(
    node_ids: Sequence[int], within_ms: Span, columns: Sequence[str], *, ends_after_ms: int
) -> dict[int, Table]:
    """The host samples of `unsealed` alone: no window is decoded."""
    batches = marked(node_ids, hours_of(within_ms), ends_after_ms=ends_after_ms)
    opened = _opened(batches.values())
    return dict(zip(batches, _hosts(opened, columns), strict=True))


def hours_of(within_ms: Span) -> range:
    """The starts of the hours that the time touches."""
    return range(floor_hour_ms(within_ms[0]), within_ms[1], HOUR_MS)


def decode_each(
    groups: Iterable[Sequence[BatchRow]],
    columns: Sequence[str] | None,
    host_columns: Sequence[str] | None,
) -> list[Decoded]:
    """One result for each group of batches, with those of the named float columns (None: of the
    wire's) that a batch has.
    """
    opened = _opened(groups)
    every = list(itertools.chain.from_iterable(opened))
    windows = batch_columns.windows(
        every, _gpu_ids(batch_columns.uuids(every)), _named(wire.WINDOW_COLUMNS, columns)
    )
    parts = _parted(*windows, list(map(len, opened)))
    return list(map(Decoded, parts, _hosts(opened, host_columns)))


def _opened(groups: Iterable[Iterable[BatchRow]]) -> list[list[Body]]:
    return [[batch_columns.opened(row) for row in batches] for batches in groups]


def _hosts(groups: Sequence[Sequence[Body]], columns: Sequence[str] | None) -> Iterator[Table]:
    """Of each group its host samples."""
    every = list(itertools.chain.from_iterable(groups))
    host = batch_columns.host(every, _named(wire.HOST_COLUMNS, columns))
    return _parted(*host, list(map(len, groups)))


def _named(columns: Sequence[str], names: Sequence[str] | None) -> Sequence[str]:
    """Those of the columns that are named; None: all of them."""
    return columns if names is None else [name for name in names if name in columns]


def _parted(table: Table, counts: Ints, sizes: Sequence[int]) -> Iterator[Table]:
    """The table's rows group by group: each of so many batches, which have so many rows."""
    ends = np.cumsum([0, *counts])[np.cumsum([0, *sizes])]
    for start, end in itertools.pairwise(ends.tolist()):
        yield {name: values[start:end] for name, values in table.items()}


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
