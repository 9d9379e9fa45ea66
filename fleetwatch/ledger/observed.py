"""What was observed, counted from the windows themselves: the ledger may call none of it missing,
and every window has its stay.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

import numpy as np

from fleetwatch.inventory import selectors as inventory
from fleetwatch.inventory.models import Node
from fleetwatch.ledger.judgement.observations import Capacity, Ints, spans_by_gpu
from fleetwatch.lib.intervals import HOUR_MS, from_ms, to_ms
from fleetwatch.lib.spans import Span, clip, difference, length_ms, union
from fleetwatch.lib.sql import execute
from fleetwatch.telemetry import frames

Windows = dict[int, list[Span]]  # GPU id -> the time that its windows cover

# One row: a physical GPU and hour cut with more time than there is, over all nodes. In: start, end
# (timestamptz).
# Again: safe, it only reads.
SPENT_TWICE = """
WITH said AS (
    SELECT node_id, gpu_id, start, gpu_ms FROM ledger_entry WHERE start >= %(start)s
    AND start < %(end)s
    UNION ALL
    SELECT node_id, gpu_id, start, gpu_ms FROM ledger_adjustment WHERE start >= %(start)s
    AND start < %(end)s
)
SELECT gpu.uuid, said.start, sum(said.gpu_ms)::bigint
FROM said
JOIN inventory_gpu AS part ON part.id = said.gpu_id
JOIN inventory_gpu AS gpu ON gpu.id = COALESCE(part.parent_id, part.id)
GROUP BY gpu.uuid, said.start
HAVING count(DISTINCT said.node_id) > 1 AND sum(said.gpu_ms) > %(hour_ms)s
ORDER BY said.start, gpu.uuid
"""
MISSING = """
WITH said AS (
    SELECT gpu_id, start, gpu_ms FROM ledger_entry
    WHERE node_id = %(node)s AND start >= %(start)s AND start < %(end)s
    AND reason IN ('missing', 'silent')
    UNION ALL
    SELECT gpu_id, start, gpu_ms FROM ledger_adjustment
    WHERE node_id = %(node)s AND start >= %(start)s AND start < %(end)s
    AND reason IN ('missing', 'silent')
)
SELECT coalesce(gpu.parent_id, gpu.id), date_trunc('hour', said.start, 'UTC'),
sum(said.gpu_ms)::bigint
FROM said
JOIN inventory_gpu AS gpu ON gpu.id = said.gpu_id
GROUP BY 1, 2
"""


def read_windows(node_id: int, start_ms: int, end_ms: int) -> Windows:
    """The time that the node's windows cover in [start_ms, end_ms), by GPU."""
    frame = frames.read_windows(node_id, start_ms, end_ms, ())
    if not len(frame):
        return {}
    order = np.lexsort((frame.start_ms, frame.gpu_id))
    gpu_ids = frame.gpu_id[order]
    starts = frame.start_ms[order]
    ends = frame.end_ms[order]
    edges = np.flatnonzero(np.append(True, gpu_ids[1:] != gpu_ids[:-1])).tolist()
    return {
        int(gpu_ids[low]): clip(_covered(starts[low:high], ends[low:high]), start_ms, end_ms)
        for low, high in zip(edges, [*edges[1:], len(gpu_ids)], strict=True)
    }


def _covered(starts: Ints, ends: Ints) -> list[Span]:
    """The union of spans in order of their starts."""
    reach = np.maximum.accumulate(ends)
    first = np.flatnonzero(np.append(True, starts[1:] > reach[:-1]))
    last = np.append(first[1:], len(starts)) - 1
    return list(zip(starts[first].tolist(), reach[last].tolist(), strict=True))


def seen_but_missing(
    node: Node, gpus: Sequence[Capacity], windows: Windows, start_ms: int, end_ms: int
) -> list[tuple[int, int, int]]:
    """(GPU id, clock hour, milliseconds) that the ledger calls missing though windows cover
    them.
    """
    unseen = _unseen(gpus, windows)
    asked = {"node": node.pk, "start": from_ms(start_ms), "end": from_ms(end_ms)}
    surplus = []
    for gpu_id, start, missing_ms in execute(MISSING, asked):
        hour = to_ms(start)
        gpu_ms = missing_ms - length_ms(clip(unseen.get(gpu_id, []), hour, hour + HOUR_MS))
        if gpu_ms > 0:
            surplus.append((gpu_id, hour, gpu_ms))
    return sorted(surplus)


def _unseen(gpus: Sequence[Capacity], windows: Windows) -> dict[int, list[Span]]:
    """Physical GPU id -> its capacity of which no window told, neither its own nor one of each of
    its instances.
    """
    parts: dict[int, list[Capacity]] = defaultdict(list)
    for gpu in gpus:
        if gpu.parent_id is not None:
            parts[gpu.parent_id].append(gpu)
    unseen: dict[int, list[Span]] = {}
    for gpu_id, spans in spans_by_gpu(gpu for gpu in gpus if gpu.parent_id is None).items():
        family = [
            windows.get(gpu_id, []),
            *(windows.get(part.gpu_id, []) for part in parts[gpu_id]),
        ]
        of_all = difference(spans, union(span for covered in family for span in covered))
        of_parts = [
            difference([(part.start_ms, part.end_ms)], windows.get(part.gpu_id, []))
            for part in parts[gpu_id]
        ]
        unseen[gpu_id] = union([*of_all, *(span for spans in of_parts for span in spans)])
    return unseen


def unclaimed(node: Node, windows: Windows) -> list[tuple[int, Span]]:
    """(GPU id, time) of windows that belong to no stay of the GPU with the node, neither a believed
    nor a disputed one.
    """
    claimed = inventory.claimed_by(node)
    return [
        (gpu_id, span)
        for gpu_id, spans in sorted(windows.items())
        for span in difference(spans, claimed.get(gpu_id, []))
    ]


def spent_twice(start: datetime, end: datetime) -> list[tuple[str, datetime, int]]:
    """(UUID, hour cut, milliseconds) of GPUs that have more time in a cut than an hour: they are
    billed on two nodes at once.
    """
    return execute(SPENT_TWICE, {"start": start, "end": end, "hour_ms": HOUR_MS})
