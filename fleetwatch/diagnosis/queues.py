"""What the schedulers' queues wait for at this moment, as agents tell it."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fleetwatch.diagnosis.capacity import ASKED, PENDING, clusters
from fleetwatch.jobs.selectors import JobSource, job_sources
from fleetwatch.lib.intervals import HOUR_MS
from fleetwatch.telemetry import frames

SCHEDULER = "slurm"  # whose agents tell of its queue
FRESH_MS = 10 * 60_000


@dataclass(frozen=True, slots=True)
class Queue:
    """GPUs that the jobs of a cluster wait for, as one of its nodes said at `told_ms`; "" = a
    cluster whose name is not known.
    """

    cluster: str
    gpus: int
    told_ms: int


def waiting(now_ms: int) -> list[Queue]:
    """The queue of each cluster whose nodes told of it in the last minutes, by name."""
    askable = sorted(_askable(job_sources(), now_ms))
    if not askable:
        return []
    cluster_of = clusters(now_ms - HOUR_MS, now_ms)
    asked: dict[str, list[int]] = defaultdict(list)
    for node_id in askable:
        asked[cluster_of.get(node_id, "")].append(node_id)
    by_node = _pending([node_id for nodes in asked.values() for node_id in nodes[:ASKED]], now_ms)
    return [
        Queue(cluster, gpus, told_ms)
        for cluster, nodes in sorted(asked.items())
        for told_ms, gpus in sorted(by_node[node] for node in nodes if node in by_node)[-1:]
    ]


def _askable(sources: Mapping[int, list[JobSource]], now_ms: int) -> set[int]:
    """The nodes whose scheduler answers now."""
    return {
        node_id
        for node_id, of_node in sources.items()
        for source in of_node
        if source.kind == SCHEDULER and source.is_ok and now_ms - source.reported_ms < FRESH_MS
    }


def _pending(node_ids: list[int], now_ms: int) -> dict[int, tuple[int, int]]:
    """Node id -> (when, how many GPUs are waited for), of those that told."""
    newest: dict[int, tuple[int, int]] = {}
    for node_id, _, host in frames.of_nodes(node_ids, now_ms - FRESH_MS, now_ms, (), (PENDING,)):
        if PENDING in host.columns:
            read = np.flatnonzero(~np.isnan(host.columns[PENDING]))
            for last in read[-1:].tolist():
                gpus = int(host.columns[PENDING][last])
                newest[node_id] = (int(host.start_ms[last]), gpus)
    return newest
