"""Columns of an interval, hot and sealed, as numpy arrays.

Hot batches are read before chunks: what is sealed in between is read twice and
counted once; the other way round it could be missed.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent import wire
from fleetwatch.lib import rows
from fleetwatch.lib.intervals import HOUR_MS, from_ms
from fleetwatch.telemetry import codec, hot
from fleetwatch.telemetry.chunks import SPAN
from fleetwatch.telemetry.tables import (
    DEAD_PROCESSES,
    HOST_INTS,
    HOST_KEYS,
    WINDOW_INTS,
    WINDOW_KEYS,
    Table,
    joined,
    overlapping,
    without_empty,
)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

LIVE_PROCESSES = "live_process_count"
MAX_WINDOW_MS = wire.MAX_WINDOW_S * 1000


@dataclass(frozen=True, slots=True)
class Frame:
    """Windows of a node's GPUs, one per position, sorted by (gpu_id, start_ms, boot_start_ms, sequence).

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

    def where(self, keep: NDArray[np.bool_]) -> "Frame":
        """The windows at which `keep` is true."""
        return Frame(
            gpu_id=self.gpu_id[keep],
            start_ms=self.start_ms[keep],
            end_ms=self.end_ms[keep],
            observed_ms=self.observed_ms[keep],
            boot_start_ms=self.boot_start_ms[keep],
            sequence=self.sequence[keep],
            columns={name: values[keep] for name, values in self.columns.items()},
        )


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


def read(node_id: int, start_ms: int, end_ms: int, columns: Sequence[str] | None = None) -> Frame:
    """All windows of the node that overlap [start_ms, end_ms).

    Exactly the named columns are there; None gives every column with a value in it.
    `live_process_count` is the windows' process_count less the processes their
    batch lists as zombie (Z), dead (X) or in uninterruptible sleep (D).
    """
    wanted = None if columns is None else _stored_names(columns)
    fresh = hot.decode(hot.marked(node_id, _hours(start_ms, end_ms)), wanted).windows
    names = None if wanted is None else [*WINDOW_INTS, *wanted]
    sealed = [codec.unpack(payload, names) for payload in _payloads("payload", node_id, start_ms, end_ms)]
    table = overlapping(joined([*sealed, fresh], ints=WINDOW_INTS, keys=WINDOW_KEYS), start_ms, end_ms)
    return frame(table, columns)


def read_gpu(gpu_id: int, node_id: int, start_ms: int, end_ms: int, columns: Sequence[str] | None = None) -> Frame:
    """The windows of one GPU of the node that overlap [start_ms, end_ms); else as `read`."""
    windows = read(node_id, start_ms, end_ms, columns)
    return windows.where(windows.gpu_id == gpu_id)


def host(node_id: int, start_ms: int, end_ms: int) -> HostFrame:
    """The node's host samples that overlap [start_ms, end_ms), with every column that has a value."""
    fresh = hot.decode(hot.marked(node_id, _hours(start_ms, end_ms)), ()).host
    sealed = [codec.unpack(payload) for payload in _payloads("host", node_id, start_ms, end_ms)]
    return _host_frame(overlapping(joined([*sealed, fresh], ints=HOST_INTS, keys=HOST_KEYS), start_ms, end_ms))


def _host_frame(table: Table) -> HostFrame:
    return HostFrame(
        start_ms=table["start_ms"],
        end_ms=table["start_ms"] + table["window_ms"],
        boot_start_ms=table["boot_start_ms"],
        sequence=table["sequence"],
        columns={name: values for name, values in without_empty(table, HOST_INTS).items() if name not in HOST_INTS},
    )


def of_nodes(
    node_ids: Sequence[int], start_ms: int, end_ms: int, columns: Sequence[str], host_columns: Sequence[str]
) -> Iterator[tuple[int, Frame, HostFrame]]:
    """Of each node what `read` and `host` give, of a host's columns those named at least, in three statements however many nodes.

    What is stored of all of them is in memory at once.
    """
    wanted = _stored_names(columns)
    fresh = hot.marked_of(node_ids, _hours(start_ms, end_ms), ends_after_ms=start_ms)
    decoded = dict(zip(fresh, hot.decode_each(fresh.values(), wanted), strict=True))
    low = from_ms(start_ms - MAX_WINDOW_MS)
    chunks: dict[int, list[tuple[bytes, bytes | None]]] = defaultdict(list)
    for node_id, payload, told in rows.fetched(
        "SELECT node_id, payload, host FROM telemetry_chunk"
        ' WHERE node_id = ANY(%s) AND start > %s AND start < %s AND "end" > %s ORDER BY node_id, start',
        [list(node_ids), low - SPAN, from_ms(end_ms), low],
    ):
        chunks[node_id].append((payload, told))
    names, host_names = [*WINDOW_INTS, *wanted], [*HOST_INTS, *host_columns]
    for node_id in node_ids:
        sealed = [codec.unpack(payload, names) for payload, _ in chunks[node_id] if payload]
        told = [codec.unpack(host, host_names) for _, host in chunks.pop(node_id) if host]
        here = decoded.pop(node_id)
        windows = joined([*sealed, here.windows], ints=WINDOW_INTS, keys=WINDOW_KEYS)
        samples = joined([*told, here.host], ints=HOST_INTS, keys=HOST_KEYS)
        yield node_id, frame(overlapping(windows, start_ms, end_ms), columns), _host_frame(overlapping(samples, start_ms, end_ms))


def together(found: Sequence[Frame]) -> Frame:
    """The windows of several nodes, of the same columns, one node after the other."""
    if len(found) == 1:
        return found[0]
    return Frame(
        gpu_id=np.concatenate([one.gpu_id for one in found]),
        start_ms=np.concatenate([one.start_ms for one in found]),
        end_ms=np.concatenate([one.end_ms for one in found]),
        observed_ms=np.concatenate([one.observed_ms for one in found]),
        boot_start_ms=np.concatenate([one.boot_start_ms for one in found]),
        sequence=np.concatenate([one.sequence for one in found]),
        columns={name: np.concatenate([one.columns[name] for one in found]) for name in found[0].columns},
    )


def frame(table: Table, columns: Sequence[str] | None) -> Frame:
    """The table's windows with the named columns (None: every one with a value in it, and the derived one)."""
    if columns is None:
        floats = {name: values for name, values in without_empty(table, WINDOW_INTS).items() if name not in WINDOW_INTS}
        floats.pop(DEAD_PROCESSES, None)
        if "process_count" in floats:
            floats[LIVE_PROCESSES] = _live_processes(table)
    else:
        floats = {name: _live_processes(table) if name == LIVE_PROCESSES else _column(table, name) for name in columns}
    return Frame(
        gpu_id=table["gpu_id"],
        start_ms=table["start_ms"],
        end_ms=table["start_ms"] + table["window_ms"],
        observed_ms=table["observed_ms"],
        boot_start_ms=table["boot_start_ms"],
        sequence=table["sequence"],
        columns=floats,
    )


def _live_processes(table: Table) -> Floats:
    return np.maximum(_column(table, "process_count") - _column(table, DEAD_PROCESSES), 0.0)


def _column(table: Table, name: str) -> Floats:
    return table[name] if name in table else np.full(len(table["start_ms"]), np.nan)


def _stored_names(columns: Sequence[str]) -> list[str]:
    names = [name for name in columns if name != LIVE_PROCESSES]
    if LIVE_PROCESSES not in columns:
        return names
    return list(dict.fromkeys([*names, "process_count", DEAD_PROCESSES]))


def _hours(start_ms: int, end_ms: int) -> range:
    """Starts of the hours in which a window that overlaps the interval may start."""
    return range((start_ms - MAX_WINDOW_MS) // HOUR_MS * HOUR_MS, end_ms, HOUR_MS)


def _payloads(kind: str, node_id: int, start_ms: int, end_ms: int) -> list[bytes]:
    """The packed bytes of the chunks that may hold overlapping windows, oldest first; `kind` is a column of Chunk."""
    low = from_ms(start_ms - MAX_WINDOW_MS)
    found = rows.fetched(
        f'SELECT {kind} FROM telemetry_chunk WHERE node_id = %s AND start > %s AND start < %s AND "end" > %s ORDER BY start',  # noqa: S608 (our own words)
        [node_id, low - SPAN, from_ms(end_ms), low],
    )
    return [payload for (payload,) in found if payload]
