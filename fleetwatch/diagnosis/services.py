"""Writes of diagnosis: hours whose ledger changed get their causes, jobs their findings."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

import numpy as np
from django.db import connection, transaction

from fleetwatch.accounts.selectors import zone
from fleetwatch.diagnosis import capacity, cause_rows, lane_rows, sums
from fleetwatch.diagnosis.judgement import packing, pauses, verdicts
from fleetwatch.diagnosis.judgement.features import LONG
from fleetwatch.diagnosis.judgement.packing import Hour
from fleetwatch.diagnosis.models import NodeCells
from fleetwatch.ledger import hour_cuts
from fleetwatch.ledger.judgement.cell_states import CELL_MS
from fleetwatch.lib.batched import integers, run
from fleetwatch.lib.intervals import HOUR_MS, floor_hour, from_ms, to_ms
from fleetwatch.lib.sql import read_statement
from fleetwatch.telemetry import retention

_DUE = read_statement("diagnosis/sql/due_hours.sql")
_NOTE = read_statement("diagnosis/sql/note_diagnosed.sql")
_KEEP = """
INSERT INTO diagnosis_nodecells (node_id, hour, payload)
SELECT node_id, hour, payload
FROM unnest(%(nodes)s::bigint[], %(hours)s::timestamptz[], %(payloads)s::bytea[])
AS made (node_id, hour, payload)
ON CONFLICT (node_id, hour) DO UPDATE SET payload = excluded.payload
RETURNING node_id
"""

REACH_MS = LONG * CELL_MS  # the longest window: as far back and ahead a cell's cause can change
# While an hour goes on only it and the one before are written; the rest of the reach follows when
# it is over.
LIVE_REACH_MS = HOUR_MS
DAYS_PER_RUN = 5_000  # days of nodes whose causes are summed: 1 s of the database
ROWS_AT_ONCE = 500  # of packed cells: some megabytes in a statement
# Nodes x hours (context included) that are judged together: more costs memory, and arrays that fit
# no cache cost time.
NODE_HOURS_AT_ONCE = 1200


@dataclass(frozen=True, slots=True)
class Due:
    """A clock hour of a node whose ledger is of a version that was not diagnosed yet."""

    node_id: int
    hour_ms: int
    version: int


def diagnose(now: datetime, limit: int, *, is_live: bool = True) -> dict[str, int]:
    """How many hours of nodes (at most `limit`, newest days first) and jobs were diagnosed, and
    days of nodes summed.

    Else than live only hours that are over are looked at, and one that goes on for the first time.
    Safe twice and when killed: an hour is noted in the transaction that wrote its causes.
    Two runs at once are fenced by the caller.
    """
    did = {"hours": 0, "jobs": 0}
    by_day: dict[date, list[Due]] = defaultdict(list)
    for one in due(now, limit, is_live=is_live):
        by_day[from_ms(one.hour_ms).date()].append(one)
    for day in sorted(by_day, reverse=True):
        for group in _batches(by_day[day], this_hour=to_ms(floor_hour(now))):
            with transaction.atomic():
                did["jobs"] += _diagnose(group, now=now)
            did["hours"] += len(group)
    did["days"] = sums.sum_days(now, DAYS_PER_RUN)
    return did


def due(now: datetime, limit: int, *, is_live: bool = True) -> list[Due]:
    """Hours to diagnose, whose windows are still kept; newest days first, at most `limit`."""
    since, this_hour = retention.horizon(now).date(), floor_hour(now).replace(tzinfo=None)
    with connection.cursor() as cursor:
        cursor.execute(
            _DUE, {"since": since, "this_hour": this_hour, "is_live": is_live, "limit": limit}
        )
        found = cursor.fetchall()
    return [Due(node_id, _hour_ms(day, hour), version) for node_id, day, hour, version in found]


def _hour_ms(day: date, hour: int) -> int:
    return (day - date(1970, 1, 1)).days * 24 * HOUR_MS + hour * HOUR_MS


def _batches(hours: Sequence[Due], *, this_hour: int) -> Iterable[list[Due]]:
    """The hours in batches of nodes: those that share a job are judged together, as far as memory
    allows.
    """
    first, last = min(one.hour_ms for one in hours), max(one.hour_ms for one in hours)
    by_node: dict[int, list[Due]] = defaultdict(list)
    for one in hours:
        by_node[one.node_id].append(one)
    low, high = _context(first, last, this_hour)
    at_once = NODE_HOURS_AT_ONCE // ((high - low) // HOUR_MS)
    batch: list[Due] = []
    nodes = 0
    for group in lane_rows.nodes_of_jobs(sorted(by_node), first - REACH_MS, last + HOUR_MS):
        if batch and nodes + len(group) > at_once:
            yield batch
            batch, nodes = [], 0
        batch += [one for node_id in group for one in by_node.get(node_id, ())]
        nodes += len(group)
    if batch:
        yield batch


def _written(first: int, last: int, this_hour: int) -> tuple[int, int]:
    """The span whose causes are written when these and the hours between are due."""
    before = LIVE_REACH_MS if first >= this_hour else REACH_MS
    return first - before, min(last + HOUR_MS + REACH_MS, this_hour + HOUR_MS)


def _context(first: int, last: int, this_hour: int) -> tuple[int, int]:
    """The span that is read for it."""
    start, end = _written(first, last, this_hour)
    return start - REACH_MS, min(end + REACH_MS, this_hour + HOUR_MS)


def _diagnose(hours: Sequence[Due], *, now: datetime) -> int:
    """How many jobs have causes that changed; the hours are noted as diagnosed."""
    first, last = min(one.hour_ms for one in hours), max(one.hour_ms for one in hours)
    this_hour = to_ms(floor_hour(now))
    start, end = _written(first, last, this_hour)
    low, high = _context(first, last, this_hour)
    node_ids = [
        node
        for group in lane_rows.nodes_of_jobs(sorted({one.node_id for one in hours}), low, high)
        for node in group
    ]
    held = lane_rows.held(node_ids, low, high)
    # nodes that nobody held (any more) have no causes
    rows: dict[int, cause_rows.Hours] = {node_id: {} for node_id in node_ids}
    if seen := [
        int(one.table["start_ms"].min()) for one in held.values() if len(one.table["start_ms"])
    ]:
        # a fleet that is younger than the context has less of it
        low = max(low, min(start, min(seen) // HOUR_MS * HOUR_MS))
        lanes = lane_rows.lanes(held, low, high, _hours(held, hours, low, high, this_hour))
        told = verdicts.judge(lanes, since=(start - low) // CELL_MS)
        edges = hour_cuts.edges(start, end, zone())
        tables = {node_id: one.between(start, end).table for node_id, one in held.items()}
        rows |= cause_rows.rows(tables, lanes, told, edges)
    changed = cause_rows.replace(rows, start, end)
    cause_rows.refresh_findings(changed)
    capacity.replace(
        [(one.node_id, one.hour_ms) for one in hours],
        throttled=node_ids if changed else (),
        now=now,
    )
    _note(hours)
    return len({job_id for job_id, _ in changed})


def _hours(
    held: dict[int, lane_rows.Held], hours: Sequence[Due], low: int, high: int, this_hour: int
) -> dict[tuple[int, int], Hour]:
    """The cells of every held hour of the nodes; those of due hours, and those that nobody made
    yet, are made.

    Of the hour that goes on only from the first cell on of which the ledger says something else
    than when it was made.
    """
    is_due = {(one.node_id, one.hour_ms) for one in hours}
    stored = lane_rows.stored_hours(list(held), low, high)
    # span and its context -> node -> its first cell
    firsts: dict[tuple[int, int, int], dict[int, int]] = defaultdict(dict)
    # node and beginning of its span -> what is known of windows before it
    before: dict[tuple[int, int], pauses.Before] = {}
    for node_id, one in held.items():
        wanted = {int(hour) for hour in np.unique(one.table["start_ms"] // HOUR_MS * HOUR_MS)}
        missing = sorted(
            hour for hour in wanted if (node_id, hour) in is_due or (node_id, hour) not in stored
        )
        for start_ms, end_ms in _spans(missing):
            goes_on = start_ms == this_hour and (node_id, start_ms) in stored
            first = (
                _first_changed(one.digests(start_ms), stored[node_id, start_ms].told)
                if goes_on
                else 0
            )
            if first < lane_rows.CELLS_PER_HOUR:
                first_ms = start_ms + first * CELL_MS
                last_ms = first_ms - CELL_MS
                gpu_ids = np.array(one.between(start_ms, end_ms).gpus(), dtype=np.int64)
                known = lane_rows.before(
                    gpu_ids, stored.get((node_id, last_ms // HOUR_MS * HOUR_MS)), last_ms
                )
                firsts[first_ms, end_ms, lane_rows.context_ms(known, first_ms)][node_id] = first
                before[node_id, first_ms] = known
    fresh: dict[tuple[int, int], Hour] = {}
    for (start_ms, end_ms, context_ms), nodes in firsts.items():
        known = pauses.together([before[node_id, start_ms] for node_id in nodes])
        made = lane_rows.made_hours(
            [held[node_id] for node_id in nodes], start_ms, end_ms, context_ms, known
        )
        fresh |= {
            key: lane_rows.continued(
                stored.get(key), hour, nodes[key[0]] if key[1] <= start_ms else 0
            )
            for key, hour in made.items()
        }
    _keep(fresh)
    return stored | fresh


def _first_changed(now: Sequence[int], before: Sequence[int]) -> int:
    """The first cell that is told otherwise; their number where none is."""
    return next(
        (cell for cell, (one, other) in enumerate(zip(now, before, strict=True)) if one != other),
        len(now),
    )


def _spans(hours: Sequence[int]) -> list[tuple[int, int]]:
    """Adjacent clock hours as half-open spans."""
    spans: list[tuple[int, int]] = []
    for hour in hours:
        if spans and spans[-1][1] == hour:
            spans[-1] = (spans[-1][0], hour + HOUR_MS)
        else:
            spans.append((hour, hour + HOUR_MS))
    return spans


def _keep(made: dict[tuple[int, int], Hour]) -> None:
    keys = list(made)
    for first in range(0, len(keys), ROWS_AT_ONCE):
        here = keys[first : first + ROWS_AT_ONCE]
        run(
            _KEEP,
            {
                "nodes": integers(node_id for node_id, _ in here),
                "hours": [from_ms(start_ms) for _, start_ms in here],
                "payloads": [packing.pack(made[key]) for key in here],
            },
        )


def _note(hours: Sequence[Due]) -> None:
    moments = [from_ms(one.hour_ms) for one in hours]
    with connection.cursor() as cursor:
        cursor.execute(
            _NOTE,
            {
                "node_ids": [one.node_id for one in hours],
                "days": [moment.date() for moment in moments],
                "hours": [moment.hour + 1 for moment in moments],
                "versions": [one.version for one in hours],
            },
        )


KEEP_CELLS = timedelta(days=2)


def forget_cells(now: datetime) -> int:
    """How many hours of cells were deleted: they are made again from windows when somebody needs
    them.
    """
    return NodeCells.objects.filter(hour__lt=now - KEEP_CELLS).delete()[0]
