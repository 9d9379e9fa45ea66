"""Columns of an interval, hot and sealed, as numpy arrays.

Hot batches are read before chunks: what is sealed in between is read twice and
counted once; the other way round it could be missed.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agent import wire
from fleetwatch.lib.array_types import Floats, Ints, Mask
from fleetwatch.telemetry import codec, hot, sealed
from fleetwatch.telemetry.window_tables import (
    DEAD_PROCESSES,
    HOST_INTS,
    WINDOW_INTS,
    Table,
    float_column,
    joined,
    overlapping,
    select_rows,
    without_empty,
)

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

    def where(self, keep: Mask) -> "Frame":
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
    ((_, windows, _),) = of_nodes([node_id], start_ms, end_ms, columns, ())
    return windows


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
    ((_, samples),) = hosts([node_id], start_ms, end_ms, columns)
    return samples


def hosts(
    node_ids: Sequence[int], start_ms: int, end_ms: int, columns: Sequence[str]
) -> Iterator[tuple[int, HostFrame]]:
    """Of each node what `host` gives, in two statements; no window is decoded for it."""
    starts_ms = (start_ms - MAX_WINDOW_MS, end_ms)
    fresh = hot.unsealed_host(node_ids, starts_ms, columns, ends_after_ms=start_ms)
    chunks = sealed.read_chunks(node_ids, starts_ms, (), with_host=True)
    for node_id in node_ids:
        samples = joined([*_unpacked_host(chunks[node_id], columns), fresh[node_id]])
        yield node_id, _host_frame(overlapping(samples, start_ms, end_ms))


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
    wanted = [*WINDOW_INTS, *_stored_names(columns)]
    starts_ms = (start_ms - MAX_WINDOW_MS, end_ms)
    fresh = hot.unsealed(node_ids, starts_ms, wanted, host_columns, ends_after_ms=start_ms)
    chunks = sealed.read_chunks(node_ids, starts_ms, wanted, with_host=bool(host_columns))
    for node_id in node_ids:
        own = chunks.pop(node_id)
        unsealed = fresh.pop(node_id)
        windows = joined([*_unpacked(own, wanted), unsealed.windows])
        samples = joined([*_unpacked_host(own, host_columns), unsealed.host])
        frame = _frame(overlapping(windows, start_ms, end_ms), columns)
        yield node_id, frame, _host_frame(overlapping(samples, start_ms, end_ms))


def _unpacked(chunks: Iterable[sealed.Sealed], names: Sequence[str]) -> Iterator[Table]:
    for chunk in chunks:
        if chunk.directory:
            yield codec.unpack_bodies(chunk.directory, chunk.bodies, names)


def _unpacked_host(chunks: Iterable[sealed.Sealed], names: Sequence[str]) -> Iterator[Table]:
    for chunk in chunks:
        if chunk.host:
            yield codec.unpack(chunk.host, [*HOST_INTS, *names])


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


def _host_frame(table: Table) -> HostFrame:
    filled = without_empty(table)
    return HostFrame(
        start_ms=table["start_ms"],
        end_ms=table["start_ms"] + table["window_ms"],
        boot_start_ms=table["boot_start_ms"],
        sequence=table["sequence"],
        columns={name: values for name, values in filled.items() if name not in HOST_INTS},
    )


def _live_processes(table: Table) -> Floats:
    alive = float_column(table, "process_count") - float_column(table, DEAD_PROCESSES)
    return np.maximum(alive, 0.0)


def _stored_names(columns: Sequence[str]) -> list[str]:
    names = dict.fromkeys(columns)
    if LIVE_PROCESSES in names:
        names |= dict.fromkeys(["process_count", DEAD_PROCESSES])
        del names[LIVE_PROCESSES]
    return list(names)
