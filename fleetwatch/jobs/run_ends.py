"""Ends of runs: what was told of when a job gave its GPUs back, and the holds that end there."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fleetwatch.jobs.allocation_sources import ENDED_WITH_THE_JOB
from fleetwatch.lib.batched import integers, run
from fleetwatch.lib.spans import Span
from fleetwatch.lib.sql import read_statement

NOTE_ENDS = read_statement("jobs/sql/note_ends.sql")
CUT_HOLDS = read_statement("jobs/sql/cut_holds.sql")

Order = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class End:
    """The end of a job's run, or of its hold on one GPU, in milliseconds; `start_ms` None = not
    known which run.
    """

    job_id: int
    node_id: int | None  # on whose GPUs; None: on all nodes
    gpu_id: int | None  # None: of the whole job there
    source: str
    start_ms: int | None
    end_ms: int
    order: Order  # of the batch that told it: (as of when, boot start, sequence)
    is_cluster: bool = False  # told by the books of the cluster

    @property
    def run(self) -> tuple[int, int | None, int | None, str, int | None]:
        return self.job_id, self.node_id, self.gpu_id, self.source, self.start_ms

    @property
    def weight(self) -> tuple[bool, Order, int]:
        """The last word on a run's end has the largest; that of the cluster's books is the last."""
        return self.is_cluster, self.order, self.end_ms


def note(ends: Iterable[End]) -> set[int]:
    """The ids of jobs of which an end is new, or another one than was told before.

    An end before its start says nothing.
    """
    last: dict[tuple[int, int | None, int | None, str, int | None], End] = {}
    for end in ends:
        newest = last.get(end.run)
        is_possible = end.start_ms is None or end.start_ms <= end.end_ms
        if is_possible and (newest is None or newest.weight < end.weight):
            last[end.run] = end
    if not last:
        return set()
    # sorted, so that two batches with the same ends wait for each other and do not deadlock
    changed = run(NOTE_ENDS, _columns(sorted(last.values(), key=_place)))
    return {job_id for (job_id,) in changed}


def _place(end: End) -> tuple[int, int, int, str, int]:
    return end.job_id, end.node_id or 0, end.gpu_id or 0, end.source, end.start_ms or 0


def _columns(ends: Sequence[End]) -> dict[str, Any]:
    as_of_ms, boots, sequences = zip(*[end.order for end in ends], strict=True)
    return {
        "jobs": integers([end.job_id for end in ends]),
        "nodes": integers([end.node_id for end in ends]),
        "gpus": integers([end.gpu_id for end in ends]),
        "sources": [end.source for end in ends],
        "starts": integers([end.start_ms for end in ends]),
        "ends": integers([end.end_ms for end in ends]),
        "are_cluster": [end.is_cluster for end in ends],
        "as_of": integers(as_of_ms),
        "boots": integers(boots),
        "sequences": integers(sequences),
    }


def cut_holds(job_ids: Collection[int]) -> set[tuple[int, Span]]:
    """(GPU id, span) of the time that is held no longer, or is held again, once the jobs' ends are
    regarded.
    """
    if not job_ids:
        return set()
    rows = run(CUT_HOLDS, {"jobs": integers(sorted(job_ids)), "sources": list(ENDED_WITH_THE_JOB)})
    return {(gpu_id, (lower, upper)) for gpu_id, lower, upper in rows}
