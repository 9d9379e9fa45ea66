"""Writes about GPU time that no job's cause explains: broken, unseen, orphaned, or free while jobs
waited; and the findings of it.

A node's hour is replaced whole with the causes of its jobs; the hours of a cluster's queue are
those of all its nodes.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import numpy as np
from django.db import connection

from fleetwatch.diagnosis.causes import CATALOGUE, OF_CLUSTERS, SLOWED
from fleetwatch.diagnosis.judgement.waiting import waited
from fleetwatch.diagnosis.models import CapacityEntry
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger.judgement.cell_states import CELL_MS
from fleetwatch.ledger.judgement.observations import Floats, Mask
from fleetwatch.ledger.models import Run
from fleetwatch.lib.intervals import HOUR_MS, from_ms, to_ms
from fleetwatch.lib.sql import read_statement
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
CELLS_PER_HOUR = HOUR_MS // CELL_MS
DAY_MS = 24 * HOUR_MS
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
    clusters = _replace_queues(hours, since=_first_kept(now), now_ms=to_ms(now))
    with connection.cursor() as cursor:
        cursor.execute(
            _REFRESH,
            {
                "node_ids": sorted(nodes.union(throttled)),
                "clusters": sorted(clusters),
                "of_nodes": list(_MACHINES),
                "outbreaks": [code for code, machine in _MACHINES.items() if machine.is_outbreak],
                "slowed": SLOWED,
                "queue": QUEUE,
                "now_ms": to_ms(now),
            },
        )


def _replace_nodes(hours: NodeHours) -> None:
    node_ids, starts = [node_id for node_id, _ in hours], [from_ms(hour) for _, hour in hours]
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM diagnosis_capacityentry AS kept"
            " USING unnest(%s::bigint[], %s::timestamptz[]) AS hour (node_id, start)"
            " WHERE kept.node_id = hour.node_id AND kept.cluster = ''"
            " AND kept.start >= hour.start AND kept.start < hour.start + interval '1 hour'",
            [node_ids, starts],
        )
        cursor.execute(_ENTRIES, {"node_ids": node_ids, "hours": starts})


def _first_kept(now: datetime) -> int:
    """The first hour of which the word of a queue is still kept: older ones stay as they are."""
    return to_ms(retention.horizon(now)) // DAY_MS * DAY_MS


def _replace_queues(hours: NodeHours, *, since: int, now_ms: int) -> set[str]:
    """The clusters of these nodes, whose queue was judged anew, and those that such a node was of
    before.

    Judged are these hours and, from `since` on, those beside them: what waits across an hour's end
    is two cells in a row.
    """
    cluster_of = clusters(min(hour for _, hour in hours), max(hour for _, hour in hours) + HOUR_MS)
    wanted: dict[str, set[int]] = defaultdict(set)
    for node_id, hour in hours:
        beside = {one for one in (hour - HOUR_MS, hour + HOUR_MS) if one >= since}
        wanted[cluster_of.get(node_id, "")] |= {hour, *beside}
    touched = set(wanted)
    for cluster, starts in wanted.items():
        nodes = sorted(node_id for node_id, name in cluster_of.items() if name == cluster)
        touched |= _forget_queues(
            nodes or {node_id for node_id, _ in hours if node_id not in cluster_of}, starts
        )
        first, last = min(starts) - CELL_MS, max(starts) + HOUR_MS + CELL_MS
        pending = _pending(nodes, first, last, now_ms=now_ms)
        if pending is not None:
            CapacityEntry.objects.bulk_create(
                _entries(cluster, nodes, pending, first, sorted(starts))
            )
    return touched - {""}


def _forget_queues(nodes: Collection[int], hours: Collection[int]) -> set[str]:
    """The clusters whose queue had free time of these nodes in these hours; a node that changed its
    cluster is in one of them only.
    """
    known = CapacityEntry.objects.filter(
        node__in=nodes, start__in=[from_ms(hour) for hour in hours]
    ).exclude(cluster="")
    clusters = set(known.values_list("cluster", flat=True).distinct())
    known.delete()
    return clusters


def clusters(start_ms: int, end_ms: int) -> dict[int, str]:
    """Node id -> the cluster of the newest job that held one of its GPUs in that time, or shortly
    before.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            _CLUSTERS,
            {"start_ms": start_ms - LOOKS_BACK // timedelta(milliseconds=1), "end_ms": end_ms},
        )
        return dict(cursor.fetchall())


def _pending(nodes: Sequence[int], start_ms: int, end_ms: int, *, now_ms: int) -> Floats | None:
    """GPUs that the queue waits for by cell, as the first nodes that tell it say; NaN = not told,
    None: nobody tells, or nobody waits.
    """
    told = np.full((end_ms - start_ms) // CELL_MS, np.nan)
    over = max(now_ms - start_ms, 0) // CELL_MS  # of the cells to come nobody can tell
    asked = 0
    for node_id in nodes[:MOST_ASKED]:
        host = frames.host(node_id, start_ms, end_ms, [PENDING])
        if PENDING not in host.columns:
            continue
        values, at = host.columns[PENDING], (host.start_ms - start_ms) // CELL_MS
        is_told = ~np.isnan(values) & (at >= 0)
        # the least of a cell: what waits for all of it
        least = np.full(len(told), np.inf)
        np.minimum.at(least, at[is_told], values[is_told])
        told = np.where(np.isnan(told) & np.isfinite(least), least, told)
        asked += 1
        if asked == ASKED or not np.isnan(told[:over]).any():
            break
    return told if asked and (told > 0).any() else None


def _entries(
    cluster: str, nodes: Sequence[int], pending: Floats, first_ms: int, hours: Sequence[int]
) -> list[CapacityEntry]:
    gpus = list(GPU.objects.filter(node__in=nodes, parent=None).values_list("pk", "node_id"))
    free_ms = _free(gpus, nodes, first_ms, len(pending))
    found = waited(free_ms, _whole(gpus, free_ms), pending)
    rows = []
    for hour in hours:
        cells = slice((hour - first_ms) // CELL_MS, (hour - first_ms) // CELL_MS + CELLS_PER_HOUR)
        sums = [
            part[:, cells].sum(axis=1).tolist()
            for part in (found.free_ms, found.low_ms, found.high_ms)
        ]
        for (gpu_id, node_id), gpu_ms, low_ms, high_ms in zip(gpus, *sums, strict=True):
            if high_ms:
                start = from_ms(hour)
                rows.append(
                    CapacityEntry(
                        node_id=node_id,
                        gpu_id=gpu_id,
                        cluster=cluster,
                        start=start,
                        cause=QUEUE,
                        gpu_ms=gpu_ms,
                        low_ms=low_ms,
                        high_ms=high_ms,
                    )
                )
    return rows


def _free(
    gpus: Sequence[tuple[int, int]], nodes: Sequence[int], start_ms: int, count: int
) -> Floats:
    """GPUs x cells: milliseconds in which the ledger calls the GPU free."""
    place = {gpu_id: row for row, (gpu_id, _) in enumerate(gpus)}
    edges = start_ms + CELL_MS * np.arange(count + 1, dtype=np.int64)
    free_ms = np.zeros((len(gpus), count))
    runs = Run.objects.filter(
        node__in=nodes, condition="free", end_ms__gt=start_ms, start_ms__lt=int(edges[-1])
    )
    for gpu_id, low, high, state_ms in runs.values_list("gpu_id", "start_ms", "end_ms", "state_ms"):
        if gpu_id in place and high > low:
            # of a GPU cut into instances only a part is free
            share = min(state_ms.get("free", 0) / (high - low), 1.0)
            free_ms[place[gpu_id]] += (
                np.clip(np.minimum(edges[1:], high) - np.maximum(edges[:-1], low), 0, None) * share
            )
    return free_ms


def _whole(gpus: Sequence[tuple[int, int]], free_ms: Floats) -> Mask:
    """Where every GPU of the node was free all the time."""
    is_free = free_ms >= CELL_MS
    rows: Mapping[int, list[int]] = defaultdict(list)
    for row, (_, node_id) in enumerate(gpus):
        rows[node_id].append(row)
    whole = np.zeros_like(is_free)
    for several in rows.values():
        whole[several] = is_free[several].all(axis=0)
    return whole
