"""Hot batches: found by their marks, decoded into tables."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent import wire
from fleetwatch.lib import rows
from fleetwatch.lib.intervals import from_ms
from fleetwatch.telemetry import batch_columns
from fleetwatch.telemetry.batch_columns import BatchRow
from fleetwatch.telemetry.window_tables import Bounds, Table


@dataclass(frozen=True, slots=True)
class Decoded:
    """The batches' GPU windows and host samples, in the order given, times corrected."""

    windows: Table
    host: Table


def marked(node_id: int, hour_starts_ms: Iterable[int]) -> list[BatchRow]:
    """The batches that still have windows to seal in these hours of the node."""
    return marked_of([node_id], hour_starts_ms)[node_id]


def marked_of(
    node_ids: Sequence[int], hour_starts_ms: Iterable[int], *, ends_after_ms: int = 0
) -> dict[int, list[BatchRow]]:
    """Of each node the batches that still have windows to seal in these hours and end after that
    moment.
    """
    batches: dict[int, list[BatchRow]] = {node_id: [] for node_id in node_ids}
    wanted = _fetch(
        "(SELECT DISTINCT batch_received_at AS received_at, batch_id AS id FROM telemetry_sealmark"
        " WHERE hour = ANY(%s) AND node_id = ANY(%s))",
        [[from_ms(start) for start in hour_starts_ms], list(node_ids)],
        ends_after_ms=ends_after_ms,
    )
    for row in wanted:
        batches[row.node_id].append(row)
    return batches


def marked_since(node_id: int, start_ms: int) -> list[BatchRow]:
    """The unsealed batches of the node that end after `start_ms`; for the newest cells, without
    opening whole hours.
    """
    return _fetch(
        "(SELECT DISTINCT batch_received_at AS received_at, batch_id AS id FROM telemetry_sealmark"
        " WHERE hour >= date_trunc('hour', %s::timestamptz) AND node_id = %s)",
        [from_ms(start_ms), node_id],
        ends_after_ms=start_ms,
    )


def named(batches: Iterable[tuple[datetime, int]]) -> list[BatchRow]:
    """The batches with these (received_at, id)."""
    keys = sorted(set(batches))
    return _fetch(
        "(SELECT unnest(%s::timestamptz[]) AS received_at, unnest(%s::bigint[]) AS id)",
        [[received_at for received_at, _ in keys], [batch_id for _, batch_id in keys]],
    )


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


def host(batches: Sequence[BatchRow], columns: Sequence[str] | None) -> Table:
    """The batches' host samples alone; else as `decode_each`."""
    opened = [batch_columns.opened(row) for row in batches]
    return batch_columns.host(opened, _named(wire.HOST_COLUMNS, columns))


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


def _has_values(values: NDArray[Any], starts: Bounds, sizes: Bounds) -> NDArray[np.bool_]:
    """Whether there are any in each of the portions; where one portion is all, they are in it."""
    is_all: NDArray[np.bool_] = sizes == len(values)
    if values.dtype == np.int64:
        return np.ones(len(sizes), dtype=np.bool_)
    if is_all.any():
        return is_all
    is_filled = sizes > 0
    has_values: NDArray[np.bool_] = is_filled.copy()
    has_values[is_filled] = np.logical_or.reduceat(~np.isnan(values), starts[is_filled])
    return has_values


def _fetch(keys: str, parameters: list[Any], *, ends_after_ms: int = 0) -> list[BatchRow]:
    # ordered by id, so that of two windows with one key the one received first stays, here as after
    # sealing
    batches = rows.fetched(
        f"""
        SELECT batch.id, batch.payload, batch.offset_ms, batch.boot_start_ms, batch.sequence,
        batch.node_id
        FROM telemetry_batch AS batch
        JOIN {keys} AS wanted USING (received_at, id)
        WHERE NOT batch.quarantined AND (batch.end_ms IS NULL OR batch.end_ms > %s)
        ORDER BY batch.id
        """,  # noqa: S608 (the keys are one of the literals above)
        [*parameters, ends_after_ms],
    )
    return [BatchRow(*row) for row in batches]


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
