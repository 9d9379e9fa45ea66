"""Columns of an interval, hot and sealed, as numpy arrays.

Hot batches are read before chunks: what is sealed in between is read twice and
counted once; the other way round it could be missed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agent import wire
from fleetwatch.lib.array_types import Floats, Ints, Mask
from fleetwatch.lib.spans import Span
from fleetwatch.telemetry import codec, hot, sealed
from fleetwatch.telemetry.batch_columns import BatchRow
from fleetwatch.telemetry.directory import Bytes, Directory
from fleetwatch.telemetry.kept_windows import Asked, BatchKey, Kept, KeptWindows
from fleetwatch.telemetry.span_counts import Spans, grid, packed_grid
from fleetwatch.telemetry.window_tables import (
    DEAD_PROCESSES,
    HOST_INTS,
    WINDOW_INTS,
    Table,
    end_to_end,
    float_column,
    joined,
    overlapping,
    select_rows,
    without_empty,
)

LIVE_PROCESSES = "live_process_count"
MAX_WINDOW_MS = wire.MAX_WINDOW_S * 1000
_FOREVER_MS = 2**53
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
    for node_id, tables, hosts in _stored(node_ids, start_ms, end_ms, columns, host_columns):
        frame = _frame(overlapping(joined(tables), start_ms, end_ms), columns)
        yield node_id, frame, _host_frame(overlapping(joined(hosts), start_ms, end_ms))


def parts_of_nodes(
    node_ids: Sequence[int], start_ms: int, end_ms: int, columns: Sequence[str]
) -> Iterator[tuple[int, Frame]]:
    """The windows of the nodes that overlap [start_ms, end_ms), each once, in at least one frame of
    each node. Where nothing is hot these are its chunks: of no two of them a window may be the
    same, and each is sorted, so that nothing is compared or copied.
    """
    for node_id, (*chunks, unsealed), _ in _stored(node_ids, start_ms, end_ms, columns, ()):
        is_sealed = len(chunks) > 0 and len(unsealed["start_ms"]) == 0
        for table in chunks if is_sealed else [joined([*chunks, unsealed])]:
            yield node_id, _frame(overlapping(table, start_ms, end_ms), columns)


def low_counts(
    spans: Mapping[int, Spans], column: str, *, below: float
) -> Iterator[tuple[int, Ints]]:
    """Of each node how many windows start in each of its spans in which the column was read below a
    limit. Sealed ones are compared and counted as they are packed.
    """
    starts_ms = _around(spans.values())
    wanted = [*WINDOW_INTS, column]
    fresh = hot.unsealed(list(spans), starts_ms, wanted, ends_after_ms=starts_ms[0])
    chunks = sealed.read_chunks(list(spans), starts_ms, wanted)
    for node_id, own in spans.items():
        unsealed = fresh.pop(node_id).windows
        stored = chunks.pop(node_id)
        if len(unsealed["start_ms"]):
            table = joined([*_unpacked(stored, wanted), unsealed])
            yield node_id, _low_in_table(table, own, column, below)
        else:
            yield node_id, _low_in_chunks(stored, own, column, below)


def _around(spans: Iterable[Spans]) -> Span:
    """The time in which all of them lie; of none no time."""
    edges = [each.edges for each in spans if each.edges.size]
    return (
        min((int(starts.min()) for starts, _ in edges), default=0),
        max((int(ends.max()) for _, ends in edges), default=0),
    )


def _low_in_table(table: Table, spans: Spans, column: str, below: float) -> Ints:
    is_low = float_column(table, column) < below
    of_table = grid(table["gpu_id"], table["start_ms"])
    return of_table.counts(is_low, spans, first_gpu=0, first_ms=0)


def _low_in_chunks(
    chunks: Sequence[sealed.Sealed], spans: Spans, column: str, below: float
) -> Ints:
    none = np.zeros(len(spans.gpu_id), dtype=np.int64)
    of_chunks = (
        _low_in_chunk(chunk.directory, chunk.bodies, spans, column, below)
        for chunk in chunks
        if chunk.directory
    )
    return sum(of_chunks, none)


def _low_in_chunk(
    head: Directory, bodies: Mapping[str, Bytes], spans: Spans, column: str, below: float
) -> Ints:
    is_low = codec.is_below(head, bodies, column, below)
    gpus, first_gpu = codec.steps_of(head, bodies, "gpu_id")
    starts, first_ms = codec.steps_of(head, bodies, "start_ms")
    of_chunk = packed_grid(gpus, starts)
    return of_chunk.counts(is_low, spans, first_gpu=first_gpu, first_ms=first_ms)


def _stored(
    node_ids: Sequence[int],
    start_ms: int,
    end_ms: int,
    columns: Sequence[str],
    host_columns: Sequence[str],
) -> Iterator[tuple[int, list[Table], list[Table]]]:
    """Of each node its windows and host samples as they are stored: chunks, oldest first, then what
    is hot.
    """
    wanted = [*WINDOW_INTS, *_stored_names(columns)]
    starts_ms = (start_ms - MAX_WINDOW_MS, end_ms)
    fresh = hot.unsealed(node_ids, starts_ms, wanted, host_columns, ends_after_ms=start_ms)
    chunks = sealed.read_chunks(node_ids, starts_ms, wanted, with_host=bool(host_columns))
    for node_id in node_ids:
        own = chunks.pop(node_id)
        unsealed = fresh.pop(node_id)
        windows = [*_unpacked(own, wanted), unsealed.windows]
        yield node_id, windows, [*_unpacked_host(own, host_columns), unsealed.host]


def of_nodes_again(
    node_ids: Sequence[int],
    start_ms: int,
    end_ms: int,
    columns: Sequence[str],
    kept: KeptWindows,
) -> Frame:
    """The windows of the nodes that overlap [start_ms, end_ms), each once, in no order: in few
    statements. What is kept of the same beginning and columns is not read again, and what is read
    is kept.
    """
    asked = Asked(start_ms, (*WINDOW_INTS, *_stored_names(columns)))
    starts_ms = (start_ms - MAX_WINDOW_MS, end_ms)
    read = _read_since(kept.of_nodes(node_ids, asked), asked, starts_ms)
    if missing := [node_id for node_id in node_ids if node_id not in read]:
        read |= _read_whole(missing, asked, starts_ms)
    for node_id in node_ids:
        kept.keep(node_id, read[node_id])
    tables = [table for node_id in node_ids for table in read[node_id].tables]
    return _frame(overlapping(end_to_end(tables), start_ms, end_ms), columns)


def _read_since(before: Mapping[int, Kept], asked: Asked, starts_ms: Span) -> dict[int, Kept]:
    """Of the nodes what was read before and the batches that came since; one of which anything else
    changed is left out.
    """
    came = _came_since(before, asked, starts_ms) if before else {}
    decoded = hot.decode_each(came.values(), asked.columns, ())
    return {
        node_id: before[node_id].grown(map(_key, rows), new.windows)
        for (node_id, rows), new in zip(came.items(), decoded, strict=True)
    }


def _came_since(
    before: Mapping[int, Kept], asked: Asked, starts_ms: Span
) -> dict[int, list[BatchRow]]:
    nodes = list(before)
    ids = [batch_id for kept in before.values() for batch_id, *_ in kept.batches]
    marked = hot.marked(
        nodes, hot.hours_of(starts_ms), ends_after_ms=asked.start_ms, without_payload=ids
    )
    # after the batches: what is sealed in between is in a chunk that was not there before
    chunks = sealed.chunk_keys(nodes, starts_ms)
    return {
        node_id: [row for row in marked[node_id] if _key(row) not in kept.batches]
        for node_id, kept in before.items()
        if kept.is_part_of(map(_key, marked[node_id]), chunks[node_id])
    }


def _read_whole(node_ids: Sequence[int], asked: Asked, starts_ms: Span) -> dict[int, Kept]:
    start_ms, names = asked
    marked = hot.marked(node_ids, hot.hours_of(starts_ms), ends_after_ms=start_ms)
    chunks = sealed.read_chunks(node_ids, starts_ms, names)
    return {
        node_id: Kept.of(
            asked,
            map(_key, marked[node_id]),
            tuple(chunk.key for chunk in chunks[node_id]),
            # not cut at their end: that moves on
            [
                overlapping(table, start_ms, _FOREVER_MS)
                for table in (*_unpacked(chunks[node_id], names), fresh.windows)
            ],
        )
        for node_id, fresh in zip(marked, hot.decode_each(marked.values(), names, ()), strict=True)
    }


def _key(row: BatchRow) -> BatchKey:
    return row.batch_id, row.boot_start_ms, row.sequence


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
    return Frame.of(end_to_end([part.table for part in parts]))


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
