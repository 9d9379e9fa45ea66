"""Sealing: nodes' closed hours go from hot batches into chunks of packed columns, many nodes in few
statements.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np
import structlog
from django.db import transaction

from fleetwatch.lib import rows
from fleetwatch.lib.batched import integers
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from fleetwatch.lib.sql import execute, read_statement
from fleetwatch.telemetry import chunks, hot, matrices, retention
from fleetwatch.telemetry.batch_columns import BatchRow
from fleetwatch.telemetry.chunks import Packed
from fleetwatch.telemetry.heat_cells import CELL_MS
from fleetwatch.telemetry.locks import SEALING, try_node_locks
from fleetwatch.telemetry.window_tables import Table, select_rows, started_in

log = structlog.get_logger()

MARKS = read_statement("telemetry/sql/marks_of_hours.sql")

HOUR = chunks.HOUR
# Agents flush each 30 to 60 s and retry: most of an hour is there by then. What comes later merges
# in again.
GRACE = timedelta(minutes=10)
# (Node, hour) of one transaction: bounds its memory (a day of 8 GPUs is about 30 MB) and what a
# kill undoes.
HOURS_AT_ONCE = 24

Portion = dict[int, list[datetime]]  # node id -> its hours


class _Mark(NamedTuple):
    """One batch to seal in one hour of its node."""

    pk: int
    node_id: int
    hour: datetime
    received_at: datetime
    batch_id: int


def seal_closed_hours(now: datetime, limit: int) -> dict[str, int]:
    """Counts of what was done: hours, windows, batches sealed; hours skipped (another worker has
    them), final, and failed: what stays marked for a later run though nobody else has it.

    At most `limit` hours, the newest first: heat maps show a sealed hour whole, and people look at
    today. Hours that are still open stay hot: frames reads both.
    """
    did: Counter[str] = Counter(hours=0, windows=0, batches=0)
    for portion in _portions(_closed(now, limit)):
        did.update(_seal_or_report(portion, now))
    return dict(did)


def _seal_or_report(portion: Portion, now: datetime) -> dict[str, int]:
    try:
        return _seal(portion, now)
    except Exception:
        hours = [(node_id, hour) for node_id, hours in portion.items() for hour in hours]
        if len(hours) > 1:
            return dict(
                sum(
                    (Counter(_seal_or_report({node_id: [hour]}, now)) for node_id, hour in hours),
                    Counter(),
                )
            )
        # one hour that can't be sealed must not keep the others hot; its marks stay, so its batches
        # do too
        log.exception("hour could not be sealed", node_id=hours[0][0], hour=hours[0][1].isoformat())
        return {"failed": 1}


@transaction.atomic
def _seal(portion: Portion, now: datetime) -> dict[str, int]:
    """Seals the nodes' hours together: a batch that spans several of a node is decoded once."""
    mine = try_node_locks(SEALING, portion)
    marks = _marks({node_id: hours for node_id, hours in portion.items() if node_id in mine})
    first = retention.columns_since(now)
    # of older hours the chunk is gone: sealing a few late windows alone would pass for the whole
    # hour
    final = [mark for mark in marks if mark.hour < first]
    batches = hot.named((mark.received_at, mark.batch_id) for mark in marks if mark.hour >= first)
    there = {row.batch_id for row in batches}
    kept = [mark for mark in marks if mark.hour >= first and mark.batch_id in there]
    written = _write({(mark.node_id, mark.hour) for mark in kept}, batches)
    _delete([*final, *kept])
    missing = len(marks) - len(final) - len(kept)
    if missing:
        # their partition is half detached: it comes back (partitions.drop_sealed) because these
        # marks stay
        log.warning(
            "marked batches out of sight, left for a later run",
            nodes=sorted(mine)[:10],
            marks=missing,
        )
    did = {
        "hours": len({mark[1:3] for mark in kept}),
        "windows": sum(chunk.window_count for chunk in written),
        "batches": len(batches),
    }
    rest = {
        "skipped": sum(len(hours) for node_id, hours in portion.items() if node_id not in mine),
        "final": len({mark[1:3] for mark in final}),
        "failed": missing,
    }
    return did | {name: count for name, count in rest.items() if count}


def _marks(portion: Portion) -> list[_Mark]:
    if not portion:
        return []
    hours = [(node_id, hour) for node_id, hours in portion.items() for hour in hours]
    marks = rows.fetched(
        MARKS, {"nodes": [node_id for node_id, _ in hours], "hours": [hour for _, hour in hours]}
    )
    return [_Mark(*mark) for mark in marks]


def _delete(marks: Sequence[_Mark]) -> None:
    execute(
        "DELETE FROM telemetry_sealmark WHERE id = ANY(%s::bigint[])",
        [integers(mark.pk for mark in marks)],
    )


def _write(hours: set[tuple[int, datetime]], batches: Sequence[BatchRow]) -> list[Packed]:
    """The chunks of these hours, written anew from the chunks there are and the batches found;
    their cells too.
    """
    if not hours:
        return []
    of_node: dict[int, list[BatchRow]] = {node_id: [] for node_id, _ in hours}
    for row in batches:
        of_node[row.node_id].append(row)
    fresh = dict(zip(of_node, hot.decode_each(of_node.values(), None, None), strict=True))
    merges = [_merged(chunk, some, fresh[chunk.node_id]) for chunk, some in _targets(hours)]
    chunks.store(chunk for chunk, _, _ in merges)
    _draw(merges)
    return [chunk for chunk, _, _ in merges]


def _targets(hours: set[tuple[int, datetime]]) -> list[tuple[Packed, list[datetime]]]:
    """The chunks that hold the hours (new ones for hours that are in none), each with its hours."""
    there = chunks.covering(sorted(hours))
    targets: dict[tuple[int, datetime], tuple[Packed, list[datetime]]] = {}
    for node_id, hour in sorted(hours):
        chunk = there.get((node_id, hour)) or Packed(node_id, hour, hour + HOUR)
        targets.setdefault((node_id, chunk.start), (chunk, []))[1].append(hour)
    return list(targets.values())


def _merged(
    chunk: Packed, hours: list[datetime], fresh: hot.Decoded
) -> tuple[Packed, Table, list[datetime]]:
    windows = _of_hours(fresh.windows, hours)
    host = _of_hours(fresh.host, hours)
    packed, whole = chunks.merged([chunk], windows, host, start=chunk.start, end=chunk.end)
    return packed, whole, hours


def _of_hours(table: Table, hours: Sequence[datetime]) -> Table:
    """The rows that start in one of the hours."""
    first_ms = to_ms(hours[0])
    if len(hours) == 1:
        return started_in(table, first_ms, first_ms + HOUR_MS)
    return select_rows(
        table, np.isin(table["start_ms"] // HOUR_MS, [to_ms(hour) // HOUR_MS for hour in hours])
    )


def _draw(merges: Sequence[tuple[Packed, Table, list[datetime]]]) -> None:
    """The cells of the hours, from all windows that the merged chunks now hold."""
    memory = matrices.memory_bytes(windows for _, windows, _ in merges)
    hours = [
        (chunk.node_id, windows, to_ms(hour)) for chunk, windows, some in merges for hour in some
    ]
    matrices.store(
        matrices.draw(
            node_id,
            started_in(windows, start_ms, start_ms + HOUR_MS),
            start_ms=start_ms,
            count=HOUR_MS // CELL_MS,
            memory_bytes=memory,
        )
        for node_id, windows, start_ms in hours
    )


def _closed(now: datetime, limit: int) -> Portion:
    """The hours with marks that ended at least GRACE before `now`, by node, the newest first."""
    hours: Portion = defaultdict(list)
    for node_id, hour in execute(
        "SELECT node_id, hour FROM telemetry_sealmark WHERE hour <= %s"
        " GROUP BY hour, node_id ORDER BY hour DESC, node_id DESC LIMIT %s",
        [now - HOUR - GRACE, limit],
    ):
        hours[node_id].append(hour)
    return hours


def _portions(hours: Portion) -> Iterator[Portion]:
    """The nodes' hours in portions of at most HOURS_AT_ONCE, a node's hours together as far as they
    fit.
    """
    portion: Portion = {}
    count = 0
    for node_id, node_hours in hours.items():
        for start in range(0, len(node_hours), HOURS_AT_ONCE):
            some = node_hours[start : start + HOURS_AT_ONCE]
            if count + len(some) > HOURS_AT_ONCE:
                yield portion
                portion = {}
                count = 0
            portion[node_id] = some
            count += len(some)
    if portion:
        yield portion
