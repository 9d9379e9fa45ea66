"""The ledger's five-minute pieces as rows: written with the entries that they are pieces of, read
by diagnosis.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from fleetwatch.ledger.judgement import cell_states
from fleetwatch.ledger.judgement.cell_states import NAMES, Table
from fleetwatch.ledger.judgement.observations import Ints, Mask
from fleetwatch.ledger.models import HourCells
from fleetwatch.lib.batched import integers, run
from fleetwatch.lib.intervals import HOUR_MS, from_ms, to_ms
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.spans import Span
from fleetwatch.telemetry.directory import compress, decompress

# columns of a payload, 64 bits each and then 32; start_ms from the hour on
_WIDE = ("gpu_id", "job_id")
_NARROW = ("start_ms", *NAMES)
_COLUMNS = (*_WIDE, *_NARROW)
_START = _COLUMNS.index("start_ms")
_ROW_BYTES = 8 * len(_WIDE) + 4 * len(_NARROW)
_READ = (
    "SELECT node_id, hour, payload FROM ledger_hourcells WHERE node_id = ANY(%s) AND hour >= %s AND"
    " hour < %s ORDER BY node_id, hour"
)
_REPLACE = """
INSERT INTO ledger_hourcells (node_id, hour, payload)
SELECT * FROM unnest(%(nodes)s::bigint[], %(hours)s::timestamptz[], %(payloads)b::bytea[])
ON CONFLICT (node_id, hour) DO UPDATE SET payload = excluded.payload
RETURNING node_id
"""


def write(cells: Mapping[int, tuple[Table, Iterable[int]]], *, start_ms: int, end_ms: int) -> None:
    """By node replaces the pieces of these clock hours within [start_ms, end_ms), in the
    transaction that writes their entries.
    """
    rows = [
        (node_id, from_ms(hour), payload)
        for node_id, (table, hours) in cells.items()
        for hour, payload in _payloads(node_id, table, hours, (start_ms, end_ms))
    ]
    if rows:
        node_ids, hours, payloads = zip(*rows, strict=True)
        given = {"nodes": integers(node_ids), "hours": list(hours), "payloads": list(payloads)}
        run(_REPLACE, given)


def _payloads(
    node_id: int, cells: Table, hours: Iterable[int], within: Span
) -> Iterator[tuple[int, bytes]]:
    """Each of the hours with what its row is to hold."""
    start_ms, end_ms = within
    fresh = cell_states.by_hour(_where(cells, _within(cells, start_ms, end_ms)))
    none = cell_states.joined([])
    for hour in sorted(hours):
        table = fresh.get(hour, none)
        if not start_ms <= hour <= end_ms - HOUR_MS:
            # an hour that a closed month's end cuts keeps the pieces of its other side
            kept = read([node_id], hour, hour + HOUR_MS).get(node_id, none)
            table = cell_states.joined([table, _where(kept, ~_within(kept, start_ms, end_ms))])
        yield hour, _packed(table, hour)


def read(node_ids: Sequence[int], start_ms: int, end_ms: int) -> dict[int, Table]:
    """Node -> its pieces in the clock hours of [start_ms, end_ms), sorted by start, GPU and job; a
    node without any is left out.
    """
    hours: dict[int, list[Ints]] = defaultdict(list)
    asked = [list(node_ids), from_ms(start_ms), from_ms(end_ms)]
    for node_id, hour, payload in fetched(_READ, asked):
        hours[node_id].append(_unpacked(payload, to_ms(hour)))
    return {
        node_id: dict(zip(_COLUMNS, np.concatenate(of_node, axis=1), strict=True))
        for node_id, of_node in hours.items()
    }


def by_hour(node_ids: Sequence[int], start_ms: int, end_ms: int) -> Iterator[Table]:
    """Of each clock hour of [start_ms, end_ms) that has any, ascending, the nodes' pieces as one
    table, in no order: ids and start are 64 bits wide, milliseconds 32.
    """
    payloads: dict[datetime, list[bytes]] = defaultdict(list)
    asked = [list(node_ids), from_ms(start_ms), from_ms(end_ms)]
    for _, hour, payload in fetched(_READ, asked):
        payloads[hour].append(payload)
    # what an hour of a hundred nodes unpacks to stays in the processor's cache
    for hour in sorted(payloads):
        yield _together(payloads[hour], to_ms(hour))


def _together(payloads: Iterable[bytes], hour: int) -> Table:
    """All rows of an hour's payloads; those of one length are one block."""
    alike: dict[int, list[bytes]] = defaultdict(list)
    for payload in payloads:
        data = decompress(payload)
        alike[len(data)].append(data)
    blocks = [_columns(b"".join(several), len(several)) for several in alike.values()]
    columns = (np.concatenate(column) for column in zip(*blocks, strict=True))
    table = dict(zip(_COLUMNS, columns, strict=True))
    return table | {"start_ms": table["start_ms"] + np.int64(hour)}


def _columns(data: bytes, count: int) -> list[Ints]:
    """_COLUMNS of so many payloads of one length."""
    words = np.frombuffer(data, dtype="<i4").reshape(count, _ROW_BYTES // 4, -1)
    wide = words[:, : 2 * len(_WIDE)].reshape(count, len(_WIDE), -1).view("<i8")
    narrow = words[:, 2 * len(_WIDE) :]
    return [block[:, place].ravel() for block in (wide, narrow) for place in range(block.shape[1])]


def forget(before: datetime) -> int:
    """How many hours of pieces were deleted: of hours whose windows are gone nothing is diagnosed
    any more.
    """
    return HourCells.objects.filter(hour__lt=before).delete()[0]


def _within(table: Table, start_ms: int, end_ms: int) -> Mask:
    return (table["start_ms"] >= start_ms) & (table["start_ms"] < end_ms)


def _where(table: Table, keep: Mask) -> Table:
    return {name: values[keep] for name, values in table.items()}


def _packed(table: Table, hour: int) -> bytes:
    """The columns in one zstd frame: to look for the best encoding of so few values takes eight
    times as long, and saves nothing.
    """
    columns = table | {"start_ms": table["start_ms"] - hour}
    return compress(
        b"".join(
            columns[name].astype(width).tobytes()
            for names, width in ((_WIDE, "<i8"), (_NARROW, "<i4"))
            for name in names
        )
    )


def _unpacked(payload: bytes, hour: int) -> Ints:
    """_COLUMNS x rows."""
    columns: Ints = np.concatenate(_blocks(payload))
    columns[_START] += hour
    return columns


def _blocks(payload: bytes) -> tuple[Ints, NDArray[np.int32]]:
    """_WIDE and _NARROW columns, each x rows."""
    data = decompress(payload)
    count = len(data) // _ROW_BYTES
    wide = np.frombuffer(data, dtype="<i8", count=count * len(_WIDE))
    narrow = np.frombuffer(data, dtype="<i4", offset=wide.nbytes)
    return wide.reshape(len(_WIDE), count), narrow.reshape(len(_NARROW), count)
