"""Batches as stored to numpy columns, many batches at once. Pure."""

import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Raw

from agent import packed, wire
from fleetwatch.lib.array_types import Floats, Ints
from fleetwatch.telemetry import packed_columns
from fleetwatch.telemetry.packed_columns import PackedTable, Run
from fleetwatch.telemetry.window_tables import DEAD_PROCESSES, Table

# /proc/<pid>/stat: zombie, dead, uninterruptible sleep. They hold a GPU and do nothing with it.
DEAD_STATES = frozenset("ZXD")
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP = 16 + zlib.MAX_WBITS


# A node, and the text in which it names its GPUs.
Naming = tuple[int, bytes]


class BatchRow(NamedTuple):
    """What decoding needs of a Batch row."""

    batch_id: int
    payload: bytes
    offset_ms: int
    boot_start_ms: int
    sequence: int
    node_id: int


class Body(NamedTuple):
    """A batch whose JSON is read as far as its columns need it."""

    row: BatchRow
    rest: Any  # _REST
    windows: PackedTable
    host: PackedTable


# Any: the door checked the last of each key, and a type would be asked of one that is there twice.
class _GPU(msgspec.Struct):
    uuid: Any


class _Process(msgspec.Struct):
    gpu: Any
    state: Any = None


_REST = msgspec.defstruct(
    "_REST",
    [("window_s", Any), ("gpus", Raw), ("processes", Raw, Raw(b"null"))],
    # in no circle, and thousands at once: they would set the collector going over all that is
    # loaded
    gc=False,
)
_RESTS: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_REST)
_GPUS = msgspec.json.Decoder(list[_GPU])
_PROCESSES = msgspec.json.Decoder(list[_Process] | None)


def opened(row: BatchRow) -> Body:
    """The batch, inflated. Raises zlib.error, WireError or msgspec.MsgspecError for what is no
    batch.
    """
    content = zlib.decompress(_as_packed(row.payload))
    rest, place = packed.rest_of(content)
    return Body(row, _RESTS.decode(rest), *packed_columns.tables(content, place))


def _as_packed(payload: bytes) -> bytes:
    """The payload; packed anew where a hub of before the packed form stored it, as JSON."""
    if payload[:2] != _GZIP_MAGIC:
        return payload
    return packed.pack(wire.decode(zlib.decompress(payload, _GZIP)))


def uuids(bodies: Iterable[Body]) -> dict[Naming, list[str]]:
    """What nodes say of their GPUs: (node id, text) -> UUIDs by position."""
    by_text: dict[bytes, list[str]] = {}
    namings = {_naming(body) for body in bodies}
    for _, text in namings:
        if text not in by_text:
            by_text[text] = [wire.canonical_uuid(gpu.uuid) for gpu in _GPUS.decode(text)]
    return {(node_id, text): by_text[text] for node_id, text in namings}


def _naming(body: Body) -> Naming:
    return body.row.node_id, bytes(body.rest.gpus)


def windows(
    bodies: Sequence[Body], gpu_ids: dict[Naming, list[int]], names: Iterable[str]
) -> tuple[Table, Ints]:
    """The GPU windows in the order given, times corrected, with those of the named columns that any
    batch has; and how many each batch has.
    """
    counts = _counts(body.windows for body in bodies)
    read = packed_columns.runs(body.windows for body in bodies)
    positions = packed_columns.whole_numbers(read, "gpu")
    table = {
        "gpu_id": _gpu_ids(bodies, positions, counts, gpu_ids),
        **_times(bodies, read, counts),
        "observed_ms": packed_columns.whole_numbers(read, "observed_ms"),
        DEAD_PROCESSES: _dead_processes(bodies, positions, counts),
    }
    return table | _floats(read, names), counts


def host(bodies: Sequence[Body], names: Iterable[str]) -> tuple[Table, Ints]:
    """The host samples in the order given, times corrected, with those of the named columns that
    any batch has; and how many each batch has.
    """
    counts = _counts(body.host for body in bodies)
    read = packed_columns.runs(body.host for body in bodies)
    return _times(bodies, read, counts) | _floats(read, names), counts


def _counts(parts: Iterable[PackedTable]) -> Ints:
    return np.array([part.rows for part in parts], dtype=np.int64)


def _times(bodies: Sequence[Body], read: Sequence[Run], counts: Ints) -> Table:
    """start_ms, boot_start_ms, sequence and window_ms of every row."""

    def each(values: Iterable[int]) -> Ints:
        return np.repeat(np.array(list(values), dtype=np.int64), counts)

    return {
        "start_ms": packed_columns.whole_numbers(read, "start_ms")
        + each(body.row.offset_ms for body in bodies),
        "boot_start_ms": each(body.row.boot_start_ms for body in bodies),
        "sequence": each(body.row.sequence for body in bodies),
        "window_ms": each(body.rest.window_s * 1000 for body in bodies),
    }


def _gpu_ids(
    bodies: Sequence[Body], positions: Ints, counts: Ints, gpu_ids: dict[Naming, list[int]]
) -> Ints:
    """Of each window the id at its position in what its batch names."""
    starts = accumulate(map(len, gpu_ids.values()), initial=0)
    first_of = dict(zip(gpu_ids, starts, strict=False))
    firsts = np.array([first_of[_naming(body)] for body in bodies], dtype=np.int64)
    every = np.array(list(chain.from_iterable(gpu_ids.values())), dtype=np.int64)
    by_window: Ints = every[np.repeat(firsts, counts) + positions]
    return by_window


def _dead_processes(bodies: Sequence[Body], positions: Ints, counts: Ints) -> Floats:
    """For each window: how many processes its batch lists on its GPU that are not alive."""
    by_window = np.zeros(len(positions))
    for body, end, count in zip(bodies, np.cumsum(counts).tolist(), counts.tolist(), strict=True):
        text = bytes(body.rest.processes)
        if b'"state"' in text:
            dead = _dead_by_gpu(text)
            of_batch = slice(end - count, end)
            by_window[of_batch] = [dead[gpu] for gpu in positions[of_batch].tolist()]
    return by_window


def _dead_by_gpu(text: bytes) -> Counter[int]:
    return Counter(
        process.gpu
        for process in _PROCESSES.decode(text) or ()
        if process.state and process.state[0] in DEAD_STATES
    )


def _floats(read: Sequence[Run], names: Iterable[str]) -> Table:
    """The named columns that any batch has, NaN where not read; ratios are clamped as the wire
    clamps them.
    """
    columns = packed_columns.floats(read, names)
    for name in columns.keys() & wire.RATIOS:
        np.clip(columns[name], 0.0, 1.0, out=columns[name])
    return columns
