"""Ends of runs: what was told of when a job gave its GPUs back, and the holds that end there."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from fleetwatch.jobs.allocation_sources import ENDED_WITH_THE_JOB
from fleetwatch.lib.batched import columns, integers, run
from fleetwatch.lib.spans import Span
from fleetwatch.lib.sql import read_statement

NOTE_ENDS = read_statement("jobs/sql/note_ends.sql")
CUT_HOLDS = read_statement("jobs/sql/cut_holds.sql")


@dataclass(frozen=True, slots=True)
class End:
    """The end of a job's run, or of its hold on one GPU, in milliseconds; `start_ms` None = not
    known which run.
    """

    job_id: int
    node_id: int | None  # on whose GPUs; None: on all nodes
    start_ms: int | None
    end_ms: int
    # the order of the batch that told it
    as_of_ms: int
    boot_start_ms: int
    sequence: int
    gpu_id: int | None = None  # None: of the whole job there
    source: str = ""
    is_cluster: bool = False  # told by the books of the cluster

    @property
    def run(self) -> tuple[int, int | None, int | None, str, int | None]:
        return self.job_id, self.node_id, self.gpu_id, self.source, self.start_ms

    @property
    def weight(self) -> tuple[int, ...]:
        """The last word on a run's end has the largest; that of the cluster's books is the last."""
        return self.is_cluster, self.as_of_ms, self.boot_start_ms, self.sequence, self.end_ms


def note(ends: Iterable[End]) -> set[int]:
    """The ids of jobs of which an end is new, or another one than was told before.

    An end before its start says nothing.
    """
    possible = [end for end in ends if end.start_ms is None or end.start_ms <= end.end_ms]
    last = {end.run: end for end in sorted(possible, key=lambda end: end.weight)}
    if not last:
        return set()
    return {job_id for (job_id,) in run(NOTE_ENDS, columns(last.values()))}


def cut_holds(job_ids: Collection[int]) -> set[tuple[int, Span]]:
    """(GPU id, span) of the time that is held no longer, or is held again, once the jobs' ends are
    regarded.
    """
    if not job_ids:
        return set()
    rows = run(CUT_HOLDS, {"jobs": integers(sorted(job_ids)), "sources": list(ENDED_WITH_THE_JOB)})
    return {(gpu_id, (lower, upper)) for gpu_id, lower, upper in rows}
