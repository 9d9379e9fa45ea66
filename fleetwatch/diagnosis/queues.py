"""What the schedulers' queues wait for at this moment, as agents tell it."""

from collections import defaultdict
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
    askable = [
        node_id
        for node_id, sources in sorted(job_sources().items())
        if any(_answers(source, now_ms) for source in sources)
    ]
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


def _answers(source: JobSource, now_ms: int) -> bool:
    """Whether it is a scheduler that answers now."""
    is_fresh = now_ms - source.reported_ms < FRESH_MS
    return source.kind == SCHEDULER and source.is_ok and is_fresh


def _pending(node_ids: list[int], now_ms: int) -> dict[int, tuple[int, int]]:
    """Node id -> (when, how many GPUs are waited for), of those that told."""
    newest: dict[int, tuple[int, int]] = {}
    for node_id, _, host in frames.of_nodes(node_ids, now_ms - FRESH_MS, now_ms, (), (PENDING,)):
        pending = host.columns.get(PENDING, np.zeros(0))
        for last in np.flatnonzero(~np.isnan(pending))[-1:].tolist():
            newest[node_id] = (int(host.start_ms[last]), int(pending[last]))
    return newest
