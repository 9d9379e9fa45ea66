"""What posting takes for granted of each GPU beyond its windows: read and written for a group of
nodes at once, and compared with what the last posting took.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fleetwatch.inventory.extents import changed as changed_time
from fleetwatch.ledger.judgement.observations import FOREVER_MS, Capacity, Outage, spans_by_gpu
from fleetwatch.lib.batched import integers, run
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.spans import Span

# the node that a GPU is at now
_READ = """
SELECT gpu.node_id, posted.gpu_id, posted.spans, posted.outages
FROM ledger_posted AS posted
JOIN inventory_gpu AS gpu ON gpu.id = posted.gpu_id
WHERE gpu.node_id = ANY(%s)
"""
_WRITE = """
INSERT INTO ledger_posted (gpu_id, spans, outages)
SELECT gpu_id, spans::jsonb, outages::jsonb
FROM unnest(%(gpu_ids)s::bigint[], %(spans)s::text[], %(outages)s::text[])
AS given (gpu_id, spans, outages)
ON CONFLICT (gpu_id) DO UPDATE SET spans = excluded.spans, outages = excluded.outages
RETURNING gpu_id
"""


@dataclass(frozen=True, slots=True)
class Granted:
    """When a GPU is capacity, ascending, and when it cannot work."""

    gpu_id: int
    spans: Sequence[Span]
    outages: Sequence[Outage]


def of_gpus(
    capacities: Iterable[Capacity], outages: Mapping[int, Sequence[Outage]]
) -> list[Granted]:
    """What is taken of each GPU that is capacity at some time."""
    return [
        Granted(gpu_id, spans, outages.get(gpu_id, []))
        for gpu_id, spans in spans_by_gpu(capacities).items()
    ]


def read(node_ids: Sequence[int]) -> dict[int, dict[int, Granted]]:
    """Of each node's GPUs, by id, what the last posting took."""
    posted: dict[int, dict[int, Granted]] = defaultdict(dict)
    for node_id, gpu_id, pairs, outages in fetched(_READ, [np.array(node_ids, dtype=np.int64)]):
        spans = [(start_ms, end_ms) for start_ms, end_ms in pairs]
        posted[node_id][gpu_id] = Granted(gpu_id, spans, outages_of(outages))
    return posted


def write(granted: Iterable[Granted]) -> None:
    """Keeps it, until the next posting."""
    rows = list(granted)
    if rows:
        run(
            _WRITE,
            {
                "gpu_ids": integers(row.gpu_id for row in rows),
                "spans": [json.dumps(row.spans) for row in rows],
                "outages": [json.dumps(list(map(_stored, row.outages))) for row in rows],
            },
        )


def outages_of(stored: Iterable[Sequence[Any]]) -> list[Outage]:
    """The outages as a row of Posted keeps them."""
    return [
        Outage(start_ms, FOREVER_MS if end_ms is None else end_ms, reason, is_revived)
        for start_ms, end_ms, reason, is_revived in stored
    ]


def _stored(outage: Outage) -> list[Any]:
    end_ms = None if outage.end_ms >= FOREVER_MS else outage.end_ms
    return [outage.start_ms, end_ms, outage.reason, outage.is_revived]


def changed_since(before: Mapping[int, Granted], now: Iterable[Granted]) -> list[Span]:
    """The time in which some GPU's capacity or unavailability is not what it was taken for."""
    return [
        span
        for row in now
        for span in _changed(before.get(row.gpu_id, Granted(row.gpu_id, (), ())), row)
    ]


def _changed(before: Granted, after: Granted) -> list[Span]:
    """The same of one GPU."""
    if before == after:
        return []
    changed = changed_time(before.spans, after.spans)
    was, now = (
        {(outage.start_ms, outage.reason): outage.end_ms for outage in row.outages}
        for row in (before, after)
    )
    for outage in was.keys() | now.keys():
        # of what was no outage it had ended as it began
        ends = [end_ms.get(outage, outage[0]) for end_ms in (was, now)]
        if len(set(ends)) > 1:
            changed.append((min(ends), max(ends)))
    return changed
