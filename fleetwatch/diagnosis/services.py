"""Writes of diagnosis: hours whose ledger changed get their causes, jobs their findings."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import groupby
from typing import NamedTuple

import numpy as np
from django.db import transaction

from fleetwatch.accounts.selectors import zone
from fleetwatch.diagnosis import capacity, cause_rows, lane_rows, sums
from fleetwatch.diagnosis.judgement import packing, pauses, verdicts
from fleetwatch.diagnosis.judgement.features import LONG
from fleetwatch.diagnosis.judgement.packing import Hour
from fleetwatch.diagnosis.judgement.pauses import Before
from fleetwatch.diagnosis.lane_rows import Held, Key
from fleetwatch.diagnosis.models import NodeCells
from fleetwatch.ledger import hour_cuts
from fleetwatch.ledger.judgement.cell_states import CELL_MS, CELLS_PER_HOUR
from fleetwatch.lib.batched import columns, integers, run
from fleetwatch.lib.intervals import HOUR_MS, floor_hour, from_ms, to_ms
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import execute, read_statement, wait_for_lock
from fleetwatch.telemetry import retention
from fleetwatch.telemetry.locks import DIAGNOSING, try_node_locks

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
ALL_HOURS = 2**31
DAYS_PER_RUN = 5_000  # days of nodes whose causes are summed: 1 s of the database
KEEP_CELLS = timedelta(days=2)
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
    Safe twice, in parallel and when killed: an hour is noted in the transaction that wrote its
    causes. `skipped` are hours of nodes of which another worker has some.
    """
    did = Counter(hours=0, jobs=0)
    for _, of_day in groupby(due(now, limit, is_live=is_live), key=_day):
        for node_ids, batch in _batches(list(of_day), to_ms(floor_hour(now))):
            did.update(_diagnose_alone(node_ids, batch, now=now, is_live=is_live))
    did["days"] = sums.sum_days(now, DAYS_PER_RUN)
    return dict(did)


@transaction.atomic
def _diagnose_alone(
    node_ids: Sequence[int], hours: Sequence[Due], *, now: datetime, is_live: bool
) -> dict[str, int]:
    """How many of the hours, which are these nodes', were diagnosed, and jobs; those that wait
    still when the nodes are ours.
    """
    if len(try_node_locks(DIAGNOSING, node_ids)) < len(node_ids):
        return {"skipped": len(hours)}
    wanted = {(hour.node_id, hour.hour_ms) for hour in hours}
    waiting = due(now, ALL_HOURS, is_live=is_live, node_ids=sorted({node for node, _ in wanted}))
    mine = [hour for hour in waiting if (hour.node_id, hour.hour_ms) in wanted]
    return {"hours": len(mine), "jobs": _diagnose(node_ids, mine, now=now) if mine else 0}


def due(
    now: datetime, limit: int, *, is_live: bool = True, node_ids: Sequence[int] | None = None
) -> list[Due]:
    """Hours to diagnose, whose windows are still kept; newest days first, at most `limit`. Of these
    nodes, or of all.
    """
    wanted = {
        "node_ids": None if node_ids is None else np.array(node_ids, dtype=np.int64),
        "since": retention.horizon(now).date(),
        "this_hour": floor_hour(now).replace(tzinfo=None),
        "is_live": is_live,
        "limit": limit,
    }
    return [Due(*row) for row in fetched(_DUE, wanted)]


def _day(hour: Due) -> date:
    return from_ms(hour.hour_ms).date()


def _batches(hours: Sequence[Due], this_hour: int) -> Iterator[tuple[list[int], list[Due]]]:
    """The hours in batches, each with the nodes that are judged for it: those that share a job are
    judged together, as far as memory allows.
    """
    by_node: dict[int, list[Due]] = defaultdict(list)
    for hour in hours:
        by_node[hour.node_id].append(hour)
    reach = _Reach.of(hours, this_hour)
    groups = lane_rows.nodes_of_jobs(sorted(by_node), reach.low, reach.high)
    for nodes in _together(groups, NODE_HOURS_AT_ONCE * HOUR_MS // (reach.high - reach.low)):
        yield nodes, [hour for node_id in nodes for hour in by_node.get(node_id, ())]


def _together(groups: Iterable[list[int]], at_once: int) -> Iterator[list[int]]:
    """The nodes of groups in a row, so many at most; of one group all."""
    nodes: list[int] = []
    for group in groups:
        if nodes and len(nodes) + len(group) > at_once:
            yield nodes
            nodes = []
        nodes = [*nodes, *group]
    if nodes:
        yield nodes


@dataclass(frozen=True, slots=True)
class _Reach:
    """How far due hours and those between them reach: the causes of [start, end) are written,
    [low, high) is read for it.
    """

    start: int
    end: int
    low: int
    high: int

    @classmethod
    def of(cls, hours: Sequence[Due], this_hour: int) -> "_Reach":
        first = min(hour.hour_ms for hour in hours)
        last = max(hour.hour_ms for hour in hours)
        start = first - (LIVE_REACH_MS if first >= this_hour else REACH_MS)
        newest = this_hour + HOUR_MS
        end = min(last + HOUR_MS + REACH_MS, newest)
        return cls(start, end, start - REACH_MS, min(end + REACH_MS, newest))


def _diagnose(node_ids: Sequence[int], hours: Sequence[Due], *, now: datetime) -> int:
    """How many jobs have causes on these nodes that changed; the hours are noted as diagnosed."""
    this_hour = to_ms(floor_hour(now))
    reach = _Reach.of(hours, this_hour)
    rows = _judged(node_ids, hours, reach, this_hour)
    changed = cause_rows.replace(rows, node_ids, reach.start, reach.end)
    cause_rows.refresh_findings(changed)
    # a cluster's queue is of many nodes: one worker writes at a time, after it has judged
    wait_for_lock("diagnosis.capacity")
    capacity.replace(
        [(hour.node_id, hour.hour_ms) for hour in hours],
        throttled=node_ids if changed else (),
        now=now,
    )
    execute(_NOTE, columns(hours))
    return len({job_id for job_id, _ in changed})


def _judged(
    node_ids: Sequence[int], hours: Sequence[Due], reach: _Reach, this_hour: int
) -> list[cause_rows.Row]:
    """The rows to write; none of nodes that nobody held (any more)."""
    held = lane_rows.held(node_ids, reach.low, reach.high)
    seen = [hour for node in held.values() for hour in node.hours()[:1]]
    if not seen:
        return []
    # a fleet that is younger than the context has less of it
    low = max(reach.low, min(reach.start, *seen))
    cells = _hours(held, hours, low, reach.high, this_hour)
    lanes = lane_rows.lanes(held, low, reach.high, cells)
    verdict = verdicts.judge(lanes, since=(reach.start - low) // CELL_MS)
    table = lane_rows.table_of(held, reach.start, reach.end)
    return cause_rows.rows(table, lanes, verdict, hour_cuts.edges(reach.start, reach.end, zone()))


class _CellSpan(NamedTuple):
    """Cells are made from the start to the end, of windows that begin `context_ms` before."""

    start_ms: int
    end_ms: int
    context_ms: int


def _hours(
    held: Mapping[int, Held], hours: Sequence[Due], low: int, high: int, this_hour: int
) -> dict[Key, Hour]:
    """The cells of every held hour of the nodes; those of due hours, and those that nobody made
    yet, are made.
    """
    stored = lane_rows.stored_hours(list(held), low, high)
    fresh: dict[Key, Hour] = {}
    for (start_ms, end_ms, _), befores in _alike(held, hours, stored, this_hour).items():
        nodes = {node_id: held[node_id] for node_id in befores}
        before = pauses.together([*befores.values()])
        for key, hour in lane_rows.made_hours(nodes, start_ms, end_ms, before).items():
            first = (start_ms - key[1]) // CELL_MS
            fresh[key] = lane_rows.continued(stored.get(key), hour, first)
    _keep(fresh)
    return stored | fresh


def _alike(
    held: Mapping[int, Held], hours: Sequence[Due], stored: Mapping[Key, Hour], this_hour: int
) -> Mapping[_CellSpan, Mapping[int, Before]]:
    """Of what is due or not stored the spans, each with the nodes for which it is made, and what is
    known of their windows before.
    """
    together: dict[_CellSpan, dict[int, Before]] = defaultdict(dict)
    kept = stored.keys() - {(hour.node_id, hour.hour_ms) for hour in hours}
    for node_id, node in held.items():
        wanted = [hour for hour in node.hours() if (node_id, hour) not in kept]
        for span, before in _remade(node_id, node, wanted, stored, this_hour):
            together[span][node_id] = before
    return together


def _remade(
    node_id: int, node: Held, hours: Sequence[int], stored: Mapping[Key, Hour], this_hour: int
) -> Iterator[tuple[_CellSpan, Before]]:
    """The spans of these hours, with what is known of windows before; of the hour that goes on only
    from the first cell on of which the ledger says something else than when it was made.
    """
    for start_ms, end_ms in hour_cuts.spans_of_hours(hours, at_most=len(hours)):
        kept = stored.get((node_id, start_ms)) if start_ms == this_hour else None
        first = _first_changed(node.digests(start_ms), kept.digests) if kept else 0
        if first == CELLS_PER_HOUR:
            continue
        first_ms = start_ms + first * CELL_MS
        last_ms = first_ms - CELL_MS
        hour_before = stored.get((node_id, last_ms // HOUR_MS * HOUR_MS))
        before = lane_rows.before(node.between(start_ms, end_ms).gpus(), hour_before, last_ms)
        yield _CellSpan(first_ms, end_ms, lane_rows.context_ms(before, first_ms)), before


def _first_changed(now: Sequence[int], before: Sequence[int]) -> int:
    """The first cell that is told otherwise; their number where none is."""
    changed = (cell for cell, digest in enumerate(now) if digest != before[cell])
    return next(changed, len(now))


def _keep(made: Mapping[Key, Hour]) -> None:
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


def forget_cells(now: datetime) -> int:
    """How many hours of cells were deleted: they are made again from windows when somebody needs
    them.
    """
    return NodeCells.objects.filter(hour__lt=now - KEEP_CELLS).delete()[0]
