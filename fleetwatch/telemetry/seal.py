"""Sealing: a node's closed hour goes from hot batches into one chunk of packed columns."""

from collections import Counter, defaultdict
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
# Of one node in one transaction: bounds its memory (a day of 8 GPUs is about 30 MB) and what a kill undoes.
HOURS_AT_ONCE = 24


def seal_closed_hours(now: datetime, limit: int) -> dict[str, int]:
    """Counts of what was done: hours, windows, batches sealed; hours skipped (another worker has them), final,
    and failed: what stays marked for a later run though nobody else has it.

    At most `limit` hours, the oldest first. Hours that are still open stay hot: frames reads both.
    """
    did: Counter[str] = Counter(hours=0, windows=0, batches=0)
    for node_id, hours in _closed(now, limit):
        did.update(_seal_or_report(node_id, hours, now))
    return dict(did)


def _seal_or_report(node_id: int, hours: list[datetime], now: datetime) -> dict[str, int]:
    try:
        return _seal(node_id, hours, now)
    except Exception:
        if len(hours) > 1:
            return dict(sum((Counter(_seal_or_report(node_id, [hour], now)) for hour in hours), Counter()))
        # one hour that can't be sealed must not keep the others hot; its marks stay, so its batches do too
        log.exception("hour could not be sealed", node_id=node_id, hour=hours[0].isoformat())
        return {"failed": 1}


@transaction.atomic
def _seal(node_id: int, hours: list[datetime], now: datetime) -> dict[str, int]:
    """Seals the node's hours together: a batch that spans several is decoded once."""
    if not try_node_lock(SEALING, node_id):
        return {"skipped": len(hours)}
    marks = list(SealMark.objects.select_for_update(skip_locked=True).filter(node_id=node_id, hour__in=hours))
    first = retention.columns_since(now)
    # of older hours the chunk is gone: sealing a few late windows alone would pass for the whole hour
    final = [mark for mark in marks if mark.hour < first]
    rows = hot.named((mark.batch_received_at, mark.batch_id) for mark in marks if mark.hour >= first)
    there = {row.batch_id for row in rows}
    kept = [mark for mark in marks if mark.hour >= first and mark.batch_id in there]
    fresh = hot.decode(rows, None)
    hours = sorted({mark.hour for mark in kept})
    did = {"hours": len(hours), "windows": sum(_merge(node_id, hour, fresh) for hour in hours), "batches": len(rows)}
    SealMark.objects.filter(pk__in=[mark.pk for mark in (*final, *kept)]).delete()
    missing = len(marks) - len(final) - len(kept)
    if missing:
        # their partition is half detached: it comes back (partitions.drop_sealed) because these marks stay
        log.warning("marked batches out of sight, left for a later run", node_id=node_id, marks=missing)
    return did | ({"final": len({mark.hour for mark in final})} if final else {}) | ({"failed": missing} if missing else {})


def _merge(node_id: int, hour: datetime, fresh: hot.Decoded) -> int:
    """How many windows the hour's chunk holds, written anew from the chunk there is and the fresh rows; its cells too."""
    start_ms, end_ms = to_ms(hour), to_ms(hour) + HOUR_MS
    chunk = Chunk.objects.filter(node_id=node_id, start__lte=hour, end__gt=hour).first() or Chunk(
        node_id=node_id, start=hour, end=hour + HOUR
    )
    windows = _joined(chunk.payload, started_in(fresh.windows, start_ms, end_ms), ints=WINDOW_INTS, keys=WINDOW_KEYS)
    host = _joined(chunk.host, started_in(fresh.host, start_ms, end_ms), ints=HOST_INTS, keys=HOST_KEYS)
    _store(chunk, windows, host)
    matrices.write(node_id, started_in(windows, start_ms, end_ms), start_ms=start_ms, count=HOUR_MS // CELL_MS)
    return chunk.window_count


def _joined(packed: bytes | memoryview, fresh: Table, *, ints: tuple[str, ...], keys: tuple[str, ...]) -> Table:
    sealed = [codec.unpack(bytes(packed))] if packed else []
    return without_empty(joined([*sealed, fresh], ints=ints, keys=keys), ints)


def _store(chunk: Chunk, windows: Table, host: Table) -> None:
    chunk.version = codec.VERSION
    chunk.window_count = len(windows["start_ms"])
    chunk.payload = codec.pack(windows)
    chunk.host = codec.pack(host) if len(host["start_ms"]) else b""
    chunk.save()


def _closed(now: datetime, limit: int) -> list[tuple[int, list[datetime]]]:
    """(node id, up to a day of its hours) with marks whose hours ended at least GRACE before `now`."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT node_id, hour FROM telemetry_sealmark WHERE hour <= %s GROUP BY hour, node_id ORDER BY hour, node_id LIMIT %s",
            [now - HOUR - GRACE, limit],
        )
        hours: dict[int, list[datetime]] = defaultdict(list)
        for node_id, hour in cursor.fetchall():
            hours[node_id].append(hour)
    return [(node_id, list(some)) for node_id, found in hours.items() for some in _portions(found)]


def _portions(hours: list[datetime]) -> list[list[datetime]]:
    return [hours[start : start + HOURS_AT_ONCE] for start in range(0, len(hours), HOURS_AT_ONCE)]
