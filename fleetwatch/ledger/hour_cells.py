"""The ledger's five-minute pieces as rows: written with the entries that they are pieces of, read by diagnosis."""

from collections.abc import Iterable, Sequence
from datetime import datetime

import numpy as np
from django.db import connection

from fleetwatch.ledger import cell_states
from fleetwatch.ledger.cell_states import KEYS, NAMES, Table
from fleetwatch.ledger.models import HourCells
from fleetwatch.lib.intervals import HOUR_MS, from_ms, to_ms
from fleetwatch.telemetry.directory import compress, decompress

# columns of a payload; start_ms from the hour on
_LAYOUT = tuple((name, "<i8" if name in ("gpu_id", "job_id") else "<i4") for name in (*KEYS, *NAMES))
_ROW_BYTES = sum(np.dtype(kind).itemsize for _, kind in _LAYOUT)
_REPLACE = """
INSERT INTO ledger_hourcells (node_id, hour, payload)
SELECT %s, hour, payload FROM unnest(%s::timestamptz[], %s::bytea[]) AS told (hour, payload)
ON CONFLICT (node_id, hour) DO UPDATE SET payload = excluded.payload
"""


def write(node_id: int, told: Table, hours: Iterable[int], *, start_ms: int, end_ms: int) -> None:
    """Replaces the pieces of these clock hours within [start_ms, end_ms), in the transaction that writes their entries."""
    wanted = sorted(hours)
    fresh = cell_states.by_hour(told) if told else {}
    whole = [hour for hour in wanted if start_ms <= hour and hour + HOUR_MS <= end_ms]
    # an hour that a closed month's end cuts keeps the pieces of its other side
    kept = read([node_id], min(wanted), max(wanted) + HOUR_MS).get(node_id) if len(whole) < len(wanted) else None
    payloads = []
    for hour in wanted:
        table = _within(fresh.get(hour), start_ms, end_ms)
        if hour not in whole and kept is not None:
            table = cell_states.joined([table, _within(kept, hour, start_ms), _within(kept, max(hour, end_ms), hour + HOUR_MS)])
        payloads.append(_packed(table or cell_states.joined([]), hour))
    with connection.cursor() as cursor:
        cursor.execute(_REPLACE, [node_id, list(map(from_ms, wanted)), payloads])


def read(node_ids: Sequence[int], start_ms: int, end_ms: int) -> dict[int, Table]:
    """Node -> its pieces in the clock hours of [start_ms, end_ms), sorted by start, GPU and job; a node without any is left out."""
    found: dict[int, list[Table | None]] = {}
    rows = HourCells.objects.filter(node_id__in=node_ids, hour__gte=from_ms(start_ms), hour__lt=from_ms(end_ms)).order_by("node_id", "hour")
    for node_id, hour, payload in rows.values_list("node_id", "hour", "payload"):
        found.setdefault(node_id, []).append(_unpacked(bytes(payload), to_ms(hour)))
    return {node_id: cell_states.joined(tables) for node_id, tables in found.items()}


def forget(before: datetime) -> int:
    """How many hours of pieces were deleted: of hours whose windows are gone nothing is diagnosed any more."""
    return HourCells.objects.filter(hour__lt=before).delete()[0]


def _within(table: Table | None, start_ms: int, end_ms: int) -> Table | None:
    if table is None:
        return None
    inside = (table["start_ms"] >= start_ms) & (table["start_ms"] < end_ms)
    return {name: values[inside] for name, values in table.items()}


def _packed(table: Table, hour: int) -> bytes:
    """The columns in one zstd frame: to look for the best encoding of so few values takes eight times as long, and saves nothing."""
    columns = [table[name] if name != "start_ms" else table[name] - hour for name, _ in _LAYOUT]
    return compress(b"".join(column.astype(kind).tobytes() for column, (_, kind) in zip(columns, _LAYOUT, strict=True)))


def _unpacked(payload: bytes, hour: int) -> Table:
    data = decompress(payload)
    rows, first = len(data) // _ROW_BYTES, 0
    table: Table = {}
    for name, kind in _LAYOUT:
        table[name] = np.frombuffer(data, dtype=kind, count=rows, offset=first).astype(np.int64)
        first += rows * np.dtype(kind).itemsize
    return table | {"start_ms": table["start_ms"] + hour}
