"""Sealing: a node's closed hour goes from hot batches into one chunk of packed columns."""

from collections import Counter
from datetime import datetime, timedelta

import structlog
from django.db import connection, transaction

from fleetwatch.lib.intervals import HOUR_MS, to_ms
from fleetwatch.telemetry import codec, hot, matrices, retention
from fleetwatch.telemetry.cells import CELL_MS
from fleetwatch.telemetry.locks import SEALING, try_node_lock
from fleetwatch.telemetry.models import Chunk, SealMark
from fleetwatch.telemetry.tables import HOST_INTS, HOST_KEYS, WINDOW_INTS, WINDOW_KEYS, Table, joined, started_in, without_empty

log = structlog.get_logger()

HOUR = timedelta(hours=1)
# Agents flush each 30 to 60 s and retry: most of an hour is there by then. What comes later merges in again.
GRACE = timedelta(minutes=10)


def seal_closed_hours(now: datetime, limit: int) -> dict[str, int]:
    """Counts of what was done: hours, windows, batches sealed; hours skipped (another worker has them), final, failed.

    At most `limit` hours, the oldest first. Hours that are still open stay hot: frames reads both.
    """
    did: Counter[str] = Counter(hours=0, windows=0, batches=0)
    for node_id, hour in _closed(now, limit):
        try:
            did.update(_seal(node_id, hour, now))
        except Exception:
            # one hour that can't be sealed must not keep the others hot; its marks stay, so its batches do too
            log.exception("hour could not be sealed", node_id=node_id, hour=hour.isoformat())
            did["failed"] += 1
    return dict(did)


@transaction.atomic
def _seal(node_id: int, hour: datetime, now: datetime) -> dict[str, int]:
    if not try_node_lock(SEALING, node_id):
        return {"skipped": 1}
    marks = list(SealMark.objects.select_for_update(skip_locked=True).filter(node_id=node_id, hour=hour))
    if not marks:
        return {}
    if hour < retention.horizon(now):
        # its chunk is gone: sealing a few late windows alone would pass for the whole hour
        did = {"final": 1}
    else:
        did = _merge(node_id, hour, {(mark.batch_received_at, mark.batch_id) for mark in marks})
    SealMark.objects.filter(pk__in=[mark.pk for mark in marks]).delete()
    return did


def _merge(node_id: int, hour: datetime, batches: set[tuple[datetime, int]]) -> dict[str, int]:
    """Writes the hour's chunk and cells anew from the chunk there is and the named batches."""
    start_ms = to_ms(hour)
    chunk = Chunk.objects.filter(node_id=node_id, start__lte=hour, end__gt=hour).first() or Chunk(
        node_id=node_id, start=hour, end=hour + HOUR
    )
    rows = hot.named(batches)
    fresh = hot.decode(rows, None)
    windows = _joined(chunk.payload, started_in(fresh.windows, start_ms, start_ms + HOUR_MS), ints=WINDOW_INTS, keys=WINDOW_KEYS)
    host = _joined(chunk.host, started_in(fresh.host, start_ms, start_ms + HOUR_MS), ints=HOST_INTS, keys=HOST_KEYS)
    _store(chunk, windows, host)
    cells_of_hour = started_in(windows, start_ms, start_ms + HOUR_MS)
    matrices.write(node_id, cells_of_hour, start_ms=start_ms, count=HOUR_MS // CELL_MS)
    return {"hours": 1, "windows": len(windows["start_ms"]), "batches": len(rows)}


def _joined(packed: bytes | memoryview, fresh: Table, *, ints: tuple[str, ...], keys: tuple[str, ...]) -> Table:
    sealed = [codec.unpack(bytes(packed))] if packed else []
    return without_empty(joined([*sealed, fresh], ints=ints, keys=keys), ints)


def _store(chunk: Chunk, windows: Table, host: Table) -> None:
    chunk.version = codec.VERSION
    chunk.window_count = len(windows["start_ms"])
    chunk.payload = codec.pack(windows)
    chunk.host = codec.pack(host) if len(host["start_ms"]) else b""
    chunk.save()


def _closed(now: datetime, limit: int) -> list[tuple[int, datetime]]:
    """(node id, hour) with marks whose hour ended at least GRACE before `now`."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT node_id, hour FROM telemetry_sealmark WHERE hour <= %s GROUP BY hour, node_id ORDER BY hour, node_id LIMIT %s",
            [now - HOUR - GRACE, limit],
        )
        return list(cursor.fetchall())
