"""Rows of sealed columns, read and written for many nodes at once."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from fleetwatch.lib import rows
from fleetwatch.lib.batched import columns, run
from fleetwatch.lib.sql import read_statement
from fleetwatch.telemetry import codec
from fleetwatch.telemetry.directory import VERSION
from fleetwatch.telemetry.portions import Stretch
from fleetwatch.telemetry.window_tables import Table, joined, without_empty

HOUR = timedelta(hours=1)
# What hours are joined to, from midnight UTC on; no chunk is longer.
SPAN = timedelta(hours=6)

WITHIN = read_statement("telemetry/sql/chunks_within.sql")
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


def within(stretches: Sequence[Stretch], length: timedelta) -> dict[Stretch, list[Packed]]:
    """The chunks that lie in each stretch of that length or around it, oldest first; one without
    any is not there.
    """
    by_stretch: dict[Stretch, list[Packed]] = defaultdict(list)
    asked = {
        "nodes": [node_id for node_id, _ in stretches],
        "starts": [start for _, start in stretches],
        "length": length,
    }
    for start, *chunk in rows.fetched(WITHIN, asked) if stretches else ():
        packed = Packed(*chunk)
        by_stretch[packed.node_id, start].append(packed)
    return by_stretch


def merged(
    parts: Sequence[Packed],
    windows: Sequence[Table] = (),
    host: Sequence[Table] = (),
    *,
    start: datetime,
    end: datetime,
) -> tuple[Packed, Table]:
    """One chunk of the parts of one node and of fresh rows, and its windows; of equal rows the
    sealed one stays.
    """
    sealed = [codec.unpack(part.payload) for part in parts if part.payload]
    hosts = [codec.unpack(part.host) for part in parts if part.host]
    all_windows = without_empty(joined([*sealed, *windows]))
    all_host = without_empty(joined([*hosts, *host]))
    chunk = Packed(
        node_id=parts[0].node_id,
        start=start,
        end=end,
        payload=codec.pack(all_windows),
        host=codec.pack(all_host) if len(all_host.get("start_ms", ())) else b"",
        window_count=len(all_windows["start_ms"]),
    )
    return chunk, all_windows


def store(chunks: Sequence[Packed]) -> None:
    """Writes the chunks; one with the same node and start is replaced."""
    if chunks:
        run(STORE, {"version": VERSION, **columns(chunks)})
