"""What of free GPUs the jobs of a cluster's queue could have taken, five minutes by five minutes,
up to now: by the same words of the queue and the same rule as the causes of hours (capacity.py).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from django.db.models import Max, Q, QuerySet

from fleetwatch.diagnosis.capacity import clusters, queue_demand
from fleetwatch.diagnosis.judgement.waiting import spread, waited, whole_nodes
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger.judgement.cell_states import CELL_MS
from fleetwatch.ledger.models import Run
from fleetwatch.lib.array_types import Floats, Ints, Mask
from fleetwatch.lib.intervals import DAY_MS

FREE = "free"
UNSEEN = "unobserved"

# a GPU's id, from when to when, and how much of it
Weighted = tuple[int, int, int, float]


@dataclass(frozen=True, slots=True)
class QueueCells:
    """Of one cluster by five minutes: GPUs that jobs wait for (NaN: nobody told), and how many of
    them stood free for sure; at most as many, were all free that nobody saw.
    """

    cluster: str
    start_ms: Ints
    pending: Floats
    least: Floats
    most: Floats


def queue_cells(start_ms: int, end_ms: int, *, now_ms: int) -> Iterator[QueueCells]:
    """Of each cluster whose queue somebody told of, day by day, so that a node is of the cluster
    whose jobs it had then; whole five minutes of [start_ms, end_ms).
    """
    for day_ms in range(start_ms // DAY_MS * DAY_MS, end_ms, DAY_MS):
        low_ms = max(-(-start_ms // CELL_MS) * CELL_MS, day_ms)
        high_ms = min(end_ms // CELL_MS * CELL_MS, day_ms + DAY_MS)
        if low_ms < high_ms:
            yield from _of_day(day_ms, low_ms, high_ms, now_ms)


def _of_day(day_ms: int, low_ms: int, high_ms: int, now_ms: int) -> Iterator[QueueCells]:
    nodes: dict[str, list[int]] = defaultdict(list)
    for node_id, cluster in sorted(clusters(day_ms, day_ms + DAY_MS).items()):
        nodes[cluster].append(node_id)
    # what waits is two cells in a row: those beside are looked at too
    first_ms = low_ms - CELL_MS
    for cluster, node_ids in nodes.items():
        pending = queue_demand(node_ids, first_ms, high_ms + CELL_MS, now_ms=now_ms)
        if not np.isnan(pending).all():
            of = _Cluster(node_ids, first_ms, len(pending))
            yield of.cells(cluster, pending)


@dataclass(frozen=True, slots=True)
class _Cluster:
    """A cluster's nodes over so many cells."""

    node_ids: Sequence[int]
    first_ms: int
    count: int

    def cells(self, cluster: str, pending: Floats) -> QueueCells:
        gpus = self._gpus()
        free_ms, unseen_ms = self._free_and_unseen(list(gpus))
        node_ids = list(gpus.values())
        inner = slice(1, -1)
        return QueueCells(
            cluster,
            (self.first_ms + CELL_MS * np.arange(self.count))[inner],
            pending[inner],
            _usable(free_ms, node_ids, pending)[inner],
            _usable(free_ms + unseen_ms, node_ids, pending)[inner],
        )

    @property
    def end_ms(self) -> int:
        return self.first_ms + CELL_MS * self.count

    def _gpus(self) -> Mapping[int, int]:
        """By id the node of each GPU that was there."""
        there = Q(retired_ms=None) | Q(retired_ms__gt=self.first_ms)
        rows = GPU.objects.filter(
            there, node__in=self.node_ids, parent=None, first_ms__lt=self.end_ms
        )
        return dict(rows.order_by("pk").values_list("pk", "node_id"))

    def _free_and_unseen(self, gpu_ids: Sequence[int]) -> tuple[Floats, Floats]:
        """GPUs x cells, in milliseconds: called free by the ledger, and seen by nobody or not
        posted yet.
        """
        runs = Run.objects.filter(
            node__in=self.node_ids,
            gpu__in=gpu_ids,
            end_ms__gt=self.first_ms,
            start_ms__lt=self.end_ms,
        )
        free = runs.filter(condition=FREE).values_list("gpu_id", "start_ms", "end_ms", "state_ms")
        spans = [
            (gpu_id, start_ms, end_ms, _share(state_ms, end_ms - start_ms))
            for gpu_id, start_ms, end_ms, state_ms in free
        ]
        return self._spread(gpu_ids, spans), self._spread(gpu_ids, self._blind(runs, gpu_ids))

    def _blind(self, runs: QuerySet[Run], gpu_ids: Sequence[int]) -> list[Weighted]:
        """What of each GPU's time nobody saw, or is not posted yet."""
        posted_ms = dict(runs.values_list("gpu_id").annotate(Max("end_ms")).order_by())
        unseen = runs.filter(condition=UNSEEN).values_list("gpu_id", "start_ms", "end_ms")
        to_come = [
            (gpu_id, max(posted_ms.get(gpu_id, 0), self.first_ms), self.end_ms)
            for gpu_id in gpu_ids
        ]
        return [(*span, 1.0) for span in (*unseen, *to_come)]

    def _spread(self, gpu_ids: Sequence[int], spans: Sequence[Weighted]) -> Floats:
        gpu_id, start_ms, end_ms, share = np.array(spans, dtype=np.float64).reshape(-1, 4).T
        begin = np.clip(start_ms - self.first_ms, 0, None)
        end = np.clip(end_ms - self.first_ms, None, self.count * CELL_MS)
        keep = end > begin
        place = np.searchsorted(gpu_ids, gpu_id[keep])
        size = (len(gpu_ids), self.count)
        return spread(place, begin[keep], end[keep], share[keep], size)


def _share(state_ms: Mapping[str, int], length_ms: int) -> float:
    """Of a GPU cut into instances only a part is free."""
    return min(state_ms.get(FREE, 0) / length_ms, 1.0)


def _usable(free_ms: Floats, node_ids: Sequence[int], pending: Floats) -> Floats:
    """GPUs by cell that jobs could have taken for sure: on nodes that were free altogether."""
    whole: Mask = whole_nodes(free_ms, node_ids)
    usable: Floats = waited(free_ms, whole, pending).low_ms.sum(axis=0) / CELL_MS
    return usable
