"""Rows of sealed columns, read and written for many nodes at once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from fleetwatch.lib import rows
from fleetwatch.lib.batched import integers, run
from fleetwatch.lib.sql import read_statement
from fleetwatch.telemetry import codec
from fleetwatch.telemetry.window_tables import (
    HOST_INTS,
    HOST_KEYS,
    WINDOW_INTS,
    WINDOW_KEYS,
    Table,
    joined,
    without_empty,
)

HOUR = timedelta(hours=1)
# What hours are joined to, from midnight UTC on; no chunk is longer.
SPAN = timedelta(hours=6)

COVERING = read_statement("telemetry/sql/chunks_covering.sql")
STORE = read_statement("telemetry/sql/store_chunks.sql")


@dataclass(frozen=True, slots=True)
class Packed:
    """A node's windows and host samples that start in [start, end), as bytes; b"" = none."""

    node_id: int
    start: datetime
    end: datetime
    payload: bytes = b""
    host: bytes = b""
    window_count: int = 0


def covering(hours: Sequence[tuple[int, datetime]]) -> dict[tuple[int, datetime], Packed]:
    """The chunk that holds each (node id, hour), where there is one."""
    chunk_rows = rows.fetched(
        COVERING, {"nodes": [node_id for node_id, _ in hours], "hours": [hour for _, hour in hours]}
    )
    return {(chunk[0], hour): Packed(*chunk) for hour, *chunk in chunk_rows}


def merged(
    parts: Sequence[Packed], windows: Table, host: Table, *, start: datetime, end: datetime
) -> tuple[Packed, Table]:
    """One chunk of the parts of one node and of fresh rows, and its windows; of equal rows the
    sealed one stays.
    """
    sealed = [codec.unpack(part.payload) for part in parts if part.payload]
    hosts = [codec.unpack(part.host) for part in parts if part.host]
    all_windows = without_empty(
        joined([*sealed, windows], ints=WINDOW_INTS, keys=WINDOW_KEYS), WINDOW_INTS
    )
    all_host = without_empty(joined([*hosts, host], ints=HOST_INTS, keys=HOST_KEYS), HOST_INTS)
    count = len(all_windows["start_ms"])
    chunk = Packed(
        node_id=parts[0].node_id,
        start=start,
        end=end,
        payload=codec.pack(all_windows),
        host=codec.pack(all_host) if len(all_host["start_ms"]) else b"",
        window_count=count,
    )
    return chunk, all_windows


def store(chunks: Iterable[Packed]) -> None:
    """Writes the chunks; one with the same node and start is replaced."""
    given = list(chunks)
    if not given:
        return
    run(
        STORE,
        {
            "nodes": integers(chunk.node_id for chunk in given),
            "starts": [chunk.start for chunk in given],
            "ends": [chunk.end for chunk in given],
            "version": codec.VERSION,
            "counts": integers(chunk.window_count for chunk in given),
            "payloads": [chunk.payload for chunk in given],
            "hosts": [chunk.host for chunk in given],
        },
    )
