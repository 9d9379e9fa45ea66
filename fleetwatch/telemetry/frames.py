"""Columns of an interval, hot and sealed, as numpy arrays.

Hot batches are read before chunks: what is sealed in between is read twice and
counted once; the other way round it could be missed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent import wire
from fleetwatch.lib.intervals import HOUR_MS, from_ms
from fleetwatch.telemetry import codec, hot, sealed
from fleetwatch.telemetry.window_tables import (
    DEAD_PROCESSES,
    HOST_INTS,
    HOST_KEYS,
    WINDOW_INTS,
    WINDOW_KEYS,
    Table,
    float_column,
    joined,
    overlapping,
    select_rows,
    without_empty,
)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

LIVE_PROCESSES = "live_process_count"
MAX_WINDOW_MS = wire.MAX_WINDOW_S * 1000
_INTS = ("gpu_id", "start_ms", "end_ms", "observed_ms", "boot_start_ms", "sequence")


@dataclass(frozen=True, slots=True)
class Frame:
    """Windows of a node's GPUs, one per position, sorted by (gpu_id, start_ms, boot_start_ms,
    sequence).

    Two windows may overlap in time (two boots, two senders); none is there twice.
    A value that was not read is NaN. Times are corrected for the agent's clock.
    """

    gpu_id: Ints
    start_ms: Ints
    end_ms: Ints  # start + that window's length
    observed_ms: Ints
    boot_start_ms: Ints  # as the agent said it: with `sequence` the order of batches
    sequence: Ints
    columns: dict[str, Floats]

    def __len__(self) -> int:
        return len(self.gpu_id)

    @classmethod
    def of(cls, table: Table) -> "Frame":
        """Of a table as `table` gives it."""
        columns = dict(table)
        ints: dict[str, Any] = {name: columns.pop(name) for name in _INTS}
        return cls(**ints, columns=columns)

    @property
    def table(self) -> Table:
        """All columns by name."""
        return {name: getattr(self, name) for name in _INTS} | self.columns

    def where(self, keep: NDArray[np.bool_]) -> "Frame":
        """The windows at which `keep` is true."""
        return Frame.of(select_rows(self.table, keep))


@dataclass(frozen=True, slots=True)
class HostFrame:
    """Host samples of a node, sorted by (start_ms, boot_start_ms, sequence); NaN = not read."""

    start_ms: Ints
    end_ms: Ints
    boot_start_ms: Ints
    sequence: Ints
    columns: dict[str, Floats]

    def __len__(self) -> int:
        return len(self.start_ms)


def read_windows(node_id: int, start_ms: int, end_ms: int, columns: Sequence[str]) -> Frame:
    """All windows of the node that overlap [start_ms, end_ms), with exactly the named columns.

    `live_process_count` is the windows' process_count less the processes their
    batch lists as zombie (Z), dead (X) or in uninterruptible sleep (D).
    """
    (stored,) = _stored([node_id], start_ms, end_ms, columns)
    return _frame(stored.windows(), columns)


def read_gpu(
    gpu_id: int, node_id: int, start_ms: int, end_ms: int, columns: Sequence[str]
) -> Frame:
    """The windows of one GPU of the node that overlap [start_ms, end_ms)."""
    windows = read_windows(node_id, start_ms, end_ms, columns)
    return windows.where(windows.gpu_id == gpu_id)


def host(node_id: int, start_ms: int, end_ms: int, columns: Sequence[str]) -> HostFrame:
    """The node's host samples that overlap [start_ms, end_ms), with those of the named columns that
    have a value.
    """
    fresh = hot.host(hot.marked(node_id, _hours(start_ms, end_ms)), columns)
    chunks = _sealed([node_id], start_ms, end_ms, (), with_host=True).get(node_id, [])
    return _host_frame(_host_table(chunks, fresh, start_ms, end_ms, columns))


def _host_frame(table: Table) -> HostFrame:
    filled = without_empty(table, HOST_INTS)
    return HostFrame(
        start_ms=table["start_ms"],
        end_ms=table["start_ms"] + table["window_ms"],
        boot_start_ms=table["boot_start_ms"],
        sequence=table["sequence"],
        columns={name: values for name, values in filled.items() if name not in HOST_INTS},
    )


def of_nodes(
    node_ids: Sequence[int],
    start_ms: int,
    end_ms: int,
    columns: Sequence[str],
    host_columns: Sequence[str],
) -> Iterator[tuple[int, Frame, HostFrame]]:
    """Of each node what `read_windows` and `host` give, in few statements however many nodes.

    What is stored of all of them is in memory at once.
    """
    for node in _stored(node_ids, start_ms, end_ms, columns, host_columns):
        yield node.node_id, _frame(node.windows(), columns), _host_frame(node.host(host_columns))


@dataclass(frozen=True, slots=True)
class _Stored:
    """What is stored of a node that may overlap [start_ms, end_ms): fresh and decoded, sealed and
    not.
    """

    node_id: int
    start_ms: int
    end_ms: int
    names: Sequence[str]  # of the windows' columns, as stored
    fresh: hot.Decoded
    chunks: Sequence[sealed.Sealed]

    def windows(self) -> Table:
        """All of them, sorted."""
        parts = [
            codec.unpack_bodies(chunk.directory, chunk.bodies, [*WINDOW_INTS, *self.names])
            for chunk in self.chunks
            if chunk.directory
        ]
        windows = joined([*parts, self.fresh.windows], ints=WINDOW_INTS, keys=WINDOW_KEYS)
        return overlapping(windows, self.start_ms, self.end_ms)

    def host(self, columns: Sequence[str]) -> Table:
        return _host_table(self.chunks, self.fresh.host, self.start_ms, self.end_ms, columns)


def _host_table(
    chunks: Sequence[sealed.Sealed],
    fresh: Table,
    start_ms: int,
    end_ms: int,
    columns: Sequence[str],
) -> Table:
    parts = [codec.unpack(chunk.host, [*HOST_INTS, *columns]) for chunk in chunks if chunk.host]
    return overlapping(joined([*parts, fresh], ints=HOST_INTS, keys=HOST_KEYS), start_ms, end_ms)


def _stored(
    node_ids: Sequence[int],
    start_ms: int,
    end_ms: int,
    columns: Sequence[str],
    host_columns: Sequence[str] = (),
) -> Iterator[_Stored]:
    names = _stored_names(columns)
    fresh = hot.marked_of(node_ids, _hours(start_ms, end_ms), ends_after_ms=start_ms)
    decoded = dict(zip(fresh, hot.decode_each(fresh.values(), names, host_columns), strict=True))
    chunks = _sealed(
        node_ids,
        start_ms,
        end_ms,
        [*WINDOW_INTS, *names],
        with_host=bool(host_columns),
    )
    for node_id in node_ids:
        yield _Stored(
            node_id, start_ms, end_ms, names, decoded.pop(node_id), chunks.pop(node_id, [])
        )


def _sealed(
    node_ids: Sequence[int],
    start_ms: int,
    end_ms: int,
    names: Sequence[str],
    *,
    with_host: bool,
) -> dict[int, list[sealed.Sealed]]:
    return sealed.read_chunks(
        node_ids, from_ms(start_ms - MAX_WINDOW_MS), from_ms(end_ms), names, with_host=with_host
    )


def together(parts: Sequence[Frame]) -> Frame:
    """The windows of several nodes, of the same columns, one node after the other."""
    if len(parts) == 1:
        return parts[0]
    tables = [part.table for part in parts]
    return Frame.of({name: np.concatenate([table[name] for table in tables]) for name in tables[0]})


def _frame(table: Table, columns: Sequence[str]) -> Frame:
    """The table's windows with the named columns."""
    floats = {
        name: _live_processes(table) if name == LIVE_PROCESSES else float_column(table, name)
        for name in columns
    }
    ends = {"end_ms": table["start_ms"] + table["window_ms"]}
    return Frame.of({name: table[name] for name in WINDOW_INTS if name in _INTS} | ends | floats)


def _live_processes(table: Table) -> Floats:
    alive = float_column(table, "process_count") - float_column(table, DEAD_PROCESSES)
    return np.maximum(alive, 0.0)


def _stored_names(columns: Sequence[str]) -> list[str]:
    names = dict.fromkeys(columns)
    if LIVE_PROCESSES in names:
        names |= dict.fromkeys(["process_count", DEAD_PROCESSES])
        del names[LIVE_PROCESSES]
    return list(names)


def _hours(start_ms: int, end_ms: int) -> range:
    """Starts of the hours in which a window that overlaps the interval may start."""
    return range((start_ms - MAX_WINDOW_MS) // HOUR_MS * HOUR_MS, end_ms, HOUR_MS)
