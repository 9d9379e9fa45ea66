"""Hot batches: found by their marks, decoded from gzip JSON into tables."""

import gzip
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import chain, repeat
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from agent import wire
from fleetwatch.inventory.models import GPU
from fleetwatch.lib.intervals import from_ms
from fleetwatch.telemetry import rows
from fleetwatch.telemetry.tables import DEAD_PROCESSES, Table

# /proc/<pid>/stat: zombie, dead, uninterruptible sleep. They hold a GPU and do nothing with it.
DEAD_STATES = frozenset("ZXD")
_CLAMPED = frozenset(wire.RATIO_COLUMNS) | {name for name in wire.HOST_COLUMNS if name.endswith("_ratio")}

_Numbers = list[float | None] | None


@dataclass(frozen=True, slots=True)
class Row:
    """What decoding needs of a Batch row."""

    batch_id: int
    payload: bytes
    offset_ms: int
    boot_start_ms: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Decoded:
    """The batches' GPU windows and host samples, in the order given, times corrected."""

    windows: Table
    host: Table


class _GPU(msgspec.Struct):
    uuid: str


class _Process(msgspec.Struct):
    gpu: int
    state: str | None = None


def marked(node_id: int, hour_starts_ms: Iterable[int]) -> list[Row]:
    """The batches that still have windows to seal in these hours of the node."""
    return _fetch(
        "(SELECT DISTINCT batch_received_at AS received_at, batch_id AS id FROM telemetry_sealmark WHERE hour = ANY(%s) AND node_id = %s)",
        [[from_ms(start) for start in hour_starts_ms], node_id],
    )


def marked_since(node_id: int, start_ms: int) -> list[Row]:
    """The unsealed batches of the node that end after `start_ms`; for the newest cells, without opening whole hours."""
    return _fetch(
        "(SELECT DISTINCT batch_received_at AS received_at, batch_id AS id FROM telemetry_sealmark"
        " WHERE hour >= date_trunc('hour', %s::timestamptz) AND node_id = %s)",
        [from_ms(start_ms), node_id],
        ends_after_ms=start_ms,
    )


def named(batches: Iterable[tuple[datetime, int]]) -> list[Row]:
    """The batches with these (received_at, id)."""
    keys = sorted(set(batches))
    return _fetch(
        "(SELECT unnest(%s::timestamptz[]) AS received_at, unnest(%s::bigint[]) AS id)",
        [[received_at for received_at, _ in keys], [batch_id for _, batch_id in keys]],
    )


def decode(found: Sequence[Row], columns: Sequence[str] | None) -> Decoded:
    """Windows with the named float columns (None: all of the wire's), host samples with all of theirs."""
    names = tuple(wire.WINDOW_COLUMNS if columns is None else (name for name in columns if name in wire.WINDOW_COLUMNS))
    decoder = _decoder(names)
    batches = [decoder.decode(gzip.decompress(row.payload)) for row in found]
    host_rows = [(row, batch) for row, batch in zip(found, batches, strict=True) if batch.host is not None and batch.host.start_ms]
    return Decoded(
        windows=_windows(found, batches, names),
        host=_host([row for row, _ in host_rows], [batch for _, batch in host_rows]),
    )


def _fetch(keys: str, parameters: list[Any], *, ends_after_ms: int = 0) -> list[Row]:
    # ordered by id, so that of two windows with one key the one received first stays, here as after sealing
    found = rows.fetched(
        f"""
        SELECT batch.id, batch.payload, batch.offset_ms, batch.boot_start_ms, batch.sequence
        FROM telemetry_batch AS batch
        JOIN {keys} AS wanted USING (received_at, id)
        WHERE NOT batch.quarantined AND (batch.end_ms IS NULL OR batch.end_ms > %s)
        ORDER BY batch.id
        """,  # noqa: S608 (the keys are one of the literals above)
        [*parameters, ends_after_ms],
    )
    return [Row(*row) for row in found]


@lru_cache(maxsize=32)
def _decoder(names: tuple[str, ...]) -> "msgspec.json.Decoder[Any]":
    """A decoder of just these window columns; msgspec steps over what it is not asked for."""
    windows = msgspec.defstruct(
        "Windows", [("gpu", list[int]), ("start_ms", list[int]), ("observed_ms", list[int]), *((name, _Numbers, None) for name in names)]
    )
    host = msgspec.defstruct("Host", [("start_ms", list[int] | None, None), *((name, _Numbers, None) for name in wire.HOST_COLUMNS)])
    batch = msgspec.defstruct(
        "Batch",
        [
            ("window_s", int),
            ("gpus", list[_GPU]),
            ("windows", windows),
            ("host", host | None, None),
            ("processes", list[_Process] | None, None),
        ],
    )
    return msgspec.json.Decoder(batch)


def _windows(found: Sequence[Row], batches: list[Any], names: Sequence[str]) -> Table:
    counts = [len(batch.windows.gpu) for batch in batches]
    gpu_ids = _gpu_ids({gpu.uuid for batch in batches for gpu in batch.gpus})
    table: Table = {
        "gpu_id": _integers([gpu_ids[batch.gpus[position].uuid] for batch in batches for position in batch.windows.gpu]),
        **_times(found, batches, counts, lambda batch: batch.windows.start_ms),
        "observed_ms": _integers([value for batch in batches for value in batch.windows.observed_ms]),
        DEAD_PROCESSES: np.array([count for batch in batches for count in _dead_processes(batch)], dtype=np.float64),
    }
    return table | {name: _numbers(name, [getattr(batch.windows, name) for batch in batches], counts) for name in names}


def _host(found: Sequence[Row], batches: list[Any]) -> Table:
    counts = [len(batch.host.start_ms) for batch in batches]
    table: Table = {**_times(found, batches, counts, lambda batch: batch.host.start_ms)}
    return table | {name: _numbers(name, [getattr(batch.host, name) for batch in batches], counts) for name in wire.HOST_COLUMNS}


def _times(found: Sequence[Row], batches: list[Any], counts: list[int], starts: Callable[[Any], list[int]]) -> Table:
    """start_ms, boot_start_ms, sequence and window_ms of every row."""
    offsets = np.repeat(_integers([row.offset_ms for row in found]), counts)
    return {
        "start_ms": _integers([start for batch in batches for start in starts(batch)]) + offsets,
        "boot_start_ms": np.repeat(_integers([row.boot_start_ms for row in found]), counts),
        "sequence": np.repeat(_integers([row.sequence for row in found]), counts),
        "window_ms": np.repeat(_integers([batch.window_s * 1000 for batch in batches]), counts),
    }


def _numbers(name: str, lists: list[list[float | None] | None], counts: list[int]) -> NDArray[np.float64]:
    """One float64 column over all batches; null and an absent column are NaN. Ratios are clamped as the wire clamps them."""
    values = chain.from_iterable(repeat(None, count) if numbers is None else numbers for numbers, count in zip(lists, counts, strict=True))
    column: NDArray[np.float64] = np.fromiter(values, dtype=np.float64, count=sum(counts))  # makes None NaN
    return np.clip(column, 0.0, 1.0) if name in _CLAMPED else column


def _dead_processes(batch: Any) -> list[int]:
    """For each window: how many processes its batch lists on its GPU that are not alive."""
    dead = Counter(process.gpu for process in batch.processes or () if process.state and process.state[0] in DEAD_STATES)
    return [dead[position] for position in batch.windows.gpu] if dead else [0] * len(batch.windows.gpu)


def _gpu_ids(uuids: set[str]) -> dict[str, int]:
    return dict(GPU.objects.filter(uuid__in=uuids).values_list("uuid", "pk")) if uuids else {}


def _integers(values: list[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)
