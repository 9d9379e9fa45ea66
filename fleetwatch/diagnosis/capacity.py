"""Writes about GPU time that no job's cause explains: broken, unseen, orphaned, or free while jobs
waited; and the findings of it.

A node's hour is replaced whole with the causes of its jobs; the hours of a cluster's queue are
those of all its nodes.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from itertools import islice

import numpy as np

from fleetwatch.diagnosis.causes import CATALOGUE, CONDITIONS, OF_CLUSTERS, SLOWED
from fleetwatch.diagnosis.judgement.waiting import waited, whole_nodes
from fleetwatch.diagnosis.models import CapacityEntry
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger.judgement.cell_states import CELL_MS, CELLS_PER_HOUR
from fleetwatch.ledger.judgement.observations import Floats
from fleetwatch.ledger.models import Run
from fleetwatch.lib.intervals import DAY_MS, HOUR_MS, from_ms, ms_in, to_ms
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import execute, read_statement
from fleetwatch.telemetry import frames, retention

# Causes that their own SELECT tells of nodes.
_MACHINES = {cause.code: cause.machine for cause in CATALOGUE if cause.machine.entries}
_ENTRIES = read_statement("diagnosis/sql/capacity_entries.sql") + "UNION ALL".join(
    machine.entries for machine in _MACHINES.values()
)
_REFRESH = read_statement("diagnosis/sql/refresh_capacity_findings.sql")
_CLUSTERS = read_statement("diagnosis/sql/clusters_of_nodes.sql")

(QUEUE,) = OF_CLUSTERS
PENDING = "pending_gpus"  # host samples of the node that asks the scheduler
LOOKS_BACK = timedelta(days=2)  # for the job that tells a node's cluster
ASKED = 3  # nodes of a cluster whose word about its one queue is read
# nodes of a cluster have the same sources: where so many say nothing of a queue, nobody does
MOST_ASKED = 32

NodeHours = Collection[tuple[int, int]]  # node id, clock hour in ms


def replace(hours: NodeHours, *, throttled: Iterable[int], now: datetime) -> None:
    """Judges these hours of nodes anew; `throttled` are nodes whose jobs' causes changed.

    Safe twice.
    """
    nodes = {node_id for node_id, _ in hours}
    _replace_nodes(hours)
    # since the first day of which the word of a queue is still kept: older hours stay as they are
    since = to_ms(retention.horizon(now)) // DAY_MS * DAY_MS
    clusters = _replace_queues(hours, since=since, now_ms=to_ms(now))
    execute(
        _REFRESH,
        {
            "node_ids": sorted(nodes.union(throttled)),
            "clusters": sorted(clusters),
            "of_nodes": list(_MACHINES),
            "conditions": [CONDITIONS.get(code, "") for code in _MACHINES],
            "outbreaks": [code for code, machine in _MACHINES.items() if machine.episode],
            "slowed": SLOWED,
            "queue": QUEUE,
            "now_ms": to_ms(now),
        },
    )


def _replace_nodes(hours: NodeHours) -> None:
    node_ids = [node_id for node_id, _ in hours]
    starts = [from_ms(hour) for _, hour in hours]
    ends = [from_ms(hour + HOUR_MS) for _, hour in hours]
    execute(
        "DELETE FROM diagnosis_capacityentry AS kept"
        " USING unnest(%s::bigint[], %s::timestamptz[], %s::timestamptz[])"
        ' AS hour (node_id, start, "end")'
        " WHERE kept.node_id = hour.node_id AND kept.cluster = ''"
        ' AND kept.start >= hour.start AND kept.start < hour."end"',
        [node_ids, starts, ends],
    )
    execute(_ENTRIES, {"node_ids": node_ids, "hours": starts})


def _replace_queues(hours: NodeHours, *, since: int, now_ms: int) -> set[str]:
    """The clusters of these nodes, whose queue was judged anew, and those that such a node was of
    before.
    """
    every = [hour for _, hour in hours]
    cluster_of = clusters(min(every), max(every) + HOUR_MS)
    touched = {cluster_of.get(node_id, "") for node_id, _ in hours}
    for cluster in sorted(touched):
        due = [each for each in hours if cluster_of.get(each[0], "") == cluster]
        node_ids, starts = map(set, zip(*due, strict=True))
        nodes = {node_id for node_id, name in cluster_of.items() if name == cluster} or node_ids
        judged = sorted(starts | _beside(starts, since))
        touched |= _forget_queues(nodes, judged)
        if cluster:
            _judge_queue(cluster, sorted(nodes), judged, now_ms=now_ms)
    return touched - {""}


def _beside(hours: Iterable[int], since: int) -> set[int]:
    """From `since` on the hours beside these are judged with them: what waits across an hour's end
    is two cells in a row.
    """
    beside = {hour + step for hour in hours for step in (-HOUR_MS, HOUR_MS)}
    return {hour for hour in beside if hour >= since}


def _judge_queue(cluster: str, nodes: Sequence[int], hours: Sequence[int], *, now_ms: int) -> None:
    """Writes what of the nodes' free time in these hours the queue could have used."""
    first_ms = hours[0] - CELL_MS
    pending = _pending(nodes, first_ms, hours[-1] + HOUR_MS + CELL_MS, now_ms=now_ms)
    if pending is not None:
        entries = _entries(cluster, nodes, pending, first_ms, hours)
        CapacityEntry.objects.bulk_create(entries)


def _forget_queues(nodes: Collection[int], hours: Collection[int]) -> set[str]:
    """The clusters whose queue had free time of these nodes in these hours; a node that changed its
    cluster is in one of them only.
    """
    entries = CapacityEntry.objects.filter(
        node__in=nodes, start__in=[from_ms(hour) for hour in hours]
    ).exclude(cluster="")
    clusters = set(entries.values_list("cluster", flat=True).distinct())
    entries.delete()
    return clusters


def clusters(start_ms: int, end_ms: int) -> dict[int, str]:
    """Node id -> the cluster of the newest job that held one of its GPUs in that time, or shortly
    before.
    """
    since = start_ms - ms_in(LOOKS_BACK)
    return dict(fetched(_CLUSTERS, {"start_ms": since, "end_ms": end_ms}))


def _pending(nodes: Sequence[int], start_ms: int, end_ms: int, *, now_ms: int) -> Floats | None:
    """What `queue_demand` gives; None: nobody tells, or nobody waits."""
    pending = queue_demand(nodes, start_ms, end_ms, now_ms=now_ms)
    return pending if (pending > 0).any() else None


def queue_demand(nodes: Sequence[int], start_ms: int, end_ms: int, *, now_ms: int) -> Floats:
    """GPUs that the queue waits for by cell, as the first nodes that tell it say; NaN = not
    told.
    """
    pending = np.full((end_ms - start_ms) // CELL_MS, np.nan)
    over = max(now_ms - start_ms, 0) // CELL_MS  # of the cells to come nobody can tell
    hosts = (frames.host(node_id, start_ms, end_ms, [PENDING]) for node_id in nodes[:MOST_ASKED])
    for host in islice((host for host in hosts if PENDING in host.columns), ASKED):
        pending = np.where(np.isnan(pending), _least(host, start_ms, len(pending)), pending)
        if not np.isnan(pending[:over]).any():
            break
    return pending


def _least(host: frames.HostFrame, start_ms: int, count: int) -> Floats:
    """The least of each cell, which is what waits for all of it; NaN = not told."""
    cell = (host.start_ms - start_ms) // CELL_MS
    least = np.full(count, np.nan)
    np.fmin.at(least, cell[cell >= 0], host.columns[PENDING][cell >= 0])
    return least


def _entries(
    cluster: str, nodes: Sequence[int], pending: Floats, first_ms: int, hours: Sequence[int]
) -> list[CapacityEntry]:
    gpus = list(GPU.objects.filter(node__in=nodes, parent=None).values_list("pk", "node_id"))
    free_ms = _free(gpus, nodes, first_ms, len(pending))
    queued = waited(free_ms, whole_nodes(free_ms, [node_id for _, node_id in gpus]), pending)
    rows = []
    for hour in hours:
        first = (hour - first_ms) // CELL_MS
        sums = [part[:, first : first + CELLS_PER_HOUR].sum(axis=1).tolist() for part in queued]
        rows += [
            CapacityEntry(
                node_id=node_id,
                gpu_id=gpu_id,
                cluster=cluster,
                start=from_ms(hour),
                cause=QUEUE,
                gpu_ms=gpu_ms,
                low_ms=low_ms,
                high_ms=high_ms,
            )
            for (gpu_id, node_id), gpu_ms, low_ms, high_ms in zip(gpus, *sums, strict=True)
            if high_ms
        ]
    return rows


def _free(
    gpus: Sequence[tuple[int, int]], nodes: Sequence[int], start_ms: int, count: int
) -> Floats:
    """GPUs x cells: milliseconds in which the ledger calls the GPU free."""
    row = {gpu_id: row for row, (gpu_id, _) in enumerate(gpus)}
    edges = start_ms + CELL_MS * np.arange(count + 1)
    free_ms = np.zeros((len(gpus), count))
    runs = Run.objects.filter(
        node__in=nodes, condition="free", end_ms__gt=start_ms, start_ms__lt=int(edges[-1])
    )
    for gpu_id, low, high, state_ms in runs.values_list("gpu_id", "start_ms", "end_ms", "state_ms"):
        if gpu_id in row and high > low:
            # of a GPU cut into instances only a part is free
            share = min(state_ms.get("free", 0) / (high - low), 1.0)
            free_ms[row[gpu_id]] += np.diff(np.clip(edges, low, high)) * share
    return free_ms
