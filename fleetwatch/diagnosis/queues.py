"""What the schedulers' queues wait for at this moment, as agents tell it."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from fleetwatch.accounts.visibility import narrowed
from fleetwatch.diagnosis.capacity import ASKED, PENDING, clusters
from fleetwatch.jobs.selectors import JobSource, job_sources
from fleetwatch.lib.intervals import HOUR_MS
from fleetwatch.telemetry import frames

SCHEDULER = "slurm"  # whose agents tell of its queue
FRESH_MS = 10 * 60_000


class Queue(NamedTuple):
    """GPUs that the jobs of a cluster wait for, as one of its nodes said at `told_ms`; "" = a
    cluster whose name is not known.
    """

    cluster: str
    told_ms: int
    gpus: int


def waiting(now_ms: int) -> list[Queue]:
    """The queue of each cluster whose nodes told of it in the last minutes, by name; none to a
    reader who does not see everything, for others wait in it too.
    """
    if narrowed() is not None:
        return []
    asked = _asked(now_ms)
    if not asked:
        return []
    # in order of time: the last of a cluster stays
    newest = {queue.cluster: queue for queue in sorted(_newest_of_nodes(asked, now_ms))}
    return list(newest.values())


def _newest_of_nodes(asked: Mapping[int, str], now_ms: int) -> Iterator[Queue]:
    """What each of these nodes said last, if it said anything."""
    for node_id, host in frames.hosts([*asked], now_ms - FRESH_MS, now_ms, [PENDING]):
        pending = host.columns.get(PENDING, np.zeros(0))
        for last in np.flatnonzero(~np.isnan(pending))[-1:].tolist():
            yield Queue(asked[node_id], int(host.start_ms[last]), int(pending[last]))


def _asked(now_ms: int) -> dict[int, str]:
    """Nodes whose scheduler answers now, the first ones of each cluster, and that cluster."""
    askable = [
        node_id
        for node_id, sources in sorted(job_sources().items())
        if any(_answers(source, now_ms) for source in sources)
    ]
    cluster_of = clusters(now_ms - HOUR_MS, now_ms) if askable else {}
    asked: dict[int, str] = {}
    for node_id in askable:
        cluster = cluster_of.get(node_id, "")
        if list(asked.values()).count(cluster) < ASKED:
            asked[node_id] = cluster
    return asked


def _answers(source: JobSource, now_ms: int) -> bool:
    """Whether it is a scheduler that answers now."""
    is_fresh = now_ms - source.reported_ms < FRESH_MS
    return source.kind == SCHEDULER and source.is_ok and is_fresh
