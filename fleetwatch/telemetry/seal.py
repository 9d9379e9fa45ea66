"""Sealing: nodes' closed hours go from hot batches into chunks of packed columns, many nodes in few
statements.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
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
from fleetwatch.telemetry.matrices import Drawing
from fleetwatch.telemetry.portions import Stretch, counted, done_in_portions
from fleetwatch.telemetry.window_tables import Table, select_rows, started_in

log = structlog.get_logger()

MARKS = read_statement("telemetry/sql/marks_of_hours.sql")
# The newest first, a node's hours together: a batch that spans two is decoded once.
CLOSED = """
SELECT node_id, hour
FROM (
    SELECT node_id, hour FROM telemetry_sealmark WHERE hour <= %s
    GROUP BY hour, node_id ORDER BY hour DESC, node_id DESC LIMIT %s
) AS closed
ORDER BY max(hour) OVER (PARTITION BY node_id) DESC, node_id DESC, hour DESC
"""

HOUR = chunks.HOUR
# Agents flush each 30 to 60 s and retry: most of an hour is there by then. What comes later merges
# in again.
GRACE = timedelta(minutes=10)
# (Node, hour) of one transaction: bounds its memory (a day of 8 GPUs is about 30 MB) and what a
# kill undoes.
HOURS_AT_ONCE = 24


class _Mark(NamedTuple):
    """One batch to seal in one hour of its node."""

    pk: int
    hour: Stretch
    batch: BatchRow | None  # None = it is out of sight


def seal_closed_hours(now: datetime, limit: int) -> dict[str, int]:
    """Counts of what was done: hours, windows, batches sealed; hours skipped (another worker has
    them), final, and failed: what stays marked for a later run though nobody else has it.

    At most `limit` hours, the newest first: heat maps show a sealed hour whole, and people look at
    today. Hours that are still open stay hot: frames reads both.
    """
    did: Counter[str] = Counter(hours=0, windows=0, batches=0)
    did.update(
        done_in_portions(
            execute(CLOSED, [now - HOUR - GRACE, limit]),
            partial(_seal, now=now),
            at_once=HOURS_AT_ONCE,
            failure="hour could not be sealed",
        )
    )
    return dict(did)


@transaction.atomic
def _seal(hours: Sequence[Stretch], *, now: datetime) -> dict[str, int]:
    """Seals the nodes' hours together: a batch that spans several of a node is decoded once."""
    mine = try_node_locks(SEALING, {node_id for node_id, _ in hours})
    marks = _marks([hour for hour in hours if hour[0] in mine])
    first = retention.columns_since(now)
    # of older hours the chunk is gone: sealing a few late windows alone would pass for the whole
    # hour
    final = [mark for mark in marks if mark.hour[1] < first]
    _delete(final)
    return _seal_marked([mark for mark in marks if mark.hour[1] >= first]) | counted(
        skipped=sum(node_id not in mine for node_id, _ in hours),
        final=len({mark.hour for mark in final}),
    )


def _seal_marked(marks: Sequence[_Mark]) -> dict[str, int]:
    sealed = [mark for mark in marks if mark.batch is not None]
    hours = {mark.hour for mark in sealed}
    batches = {mark.batch.batch_id: mark.batch for mark in sealed if mark.batch is not None}
    written = _write(hours, batches.values())
    _delete(sealed)
    left = len(marks) - len(sealed)
    if left:
        # their partition is half detached: it comes back (partitions.drop_sealed) because these
        # marks stay
        nodes = sorted({mark.hour[0] for mark in marks if mark.batch is None})
        log.warning(
            "marked batches out of sight, left for a later run", nodes=nodes[:10], marks=left
        )
    return counted(
        hours=len(hours),
        windows=sum(chunk.window_count for chunk in written),
        batches=len(batches),
        failed=left,
    )


def _marks(hours: Sequence[Stretch]) -> list[_Mark]:
    if not hours:
        return []
    marks = rows.fetched(
        MARKS, {"nodes": [node_id for node_id, _ in hours], "hours": [hour for _, hour in hours]}
    )
    return [
        _Mark(pk, (node_id, hour), None if batch[0] is None else BatchRow(*batch))
        for pk, node_id, hour, *batch in marks
    ]


def _delete(marks: Sequence[_Mark]) -> None:
    execute(
        "DELETE FROM telemetry_sealmark WHERE id = ANY(%s::bigint[])",
        [integers(mark.pk for mark in marks)],
    )


def _write(hours: set[Stretch], batches: Iterable[BatchRow]) -> list[Packed]:
    """The chunks of these hours, written anew from the chunks there are and the batches found;
    their cells too.
    """
    if not hours:
        return []
    of_node: dict[int, list[BatchRow]] = {node_id: [] for node_id, _ in hours}
    for row in batches:
        of_node[row.node_id].append(row)
    fresh = dict(zip(of_node, hot.decode_each(of_node.values(), None, None), strict=True))
    written = []
    drawings: list[Drawing] = []
    for chunk, some in _targets(hours):
        merged, windows = _merged(chunk, some, fresh[chunk.node_id])
        written.append(merged)
        drawings += _drawings(chunk.node_id, windows, some)
    chunks.store(written)
    matrices.store(drawings, count=HOUR_MS // CELL_MS)
    return written


def _targets(hours: set[Stretch]) -> list[tuple[Packed, list[datetime]]]:
    """The chunks that hold the hours (new ones for hours that are in none), each with its hours."""
    there = chunks.within(sorted(hours), HOUR)
    targets: dict[Stretch, tuple[Packed, list[datetime]]] = {}
    for node_id, hour in sorted(hours):
        (chunk,) = there.get((node_id, hour)) or [Packed(node_id, hour, hour + HOUR)]
        targets.setdefault((node_id, chunk.start), (chunk, []))[1].append(hour)
    return list(targets.values())


def _merged(chunk: Packed, hours: Sequence[datetime], fresh: hot.Decoded) -> tuple[Packed, Table]:
    """The chunk with what is fresh of its hours, and all its windows."""
    return chunks.merged(
        [chunk],
        [_of_hours(fresh.windows, hours)],
        [_of_hours(fresh.host, hours)],
        start=chunk.start,
        end=chunk.end,
    )


def _drawings(node_id: int, windows: Table, hours: Iterable[datetime]) -> Iterator[Drawing]:
    """The cells of the hours come of all windows that the merged chunk now holds."""
    for start_ms in map(to_ms, hours):
        yield Drawing(node_id, start_ms, started_in(windows, start_ms, start_ms + HOUR_MS))


def _of_hours(table: Table, hours: Iterable[datetime]) -> Table:
    """The rows that start in one of the hours."""
    places = [to_ms(hour) // HOUR_MS for hour in hours]
    return select_rows(table, np.isin(table["start_ms"] // HOUR_MS, places))
