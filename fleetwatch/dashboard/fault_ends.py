"""Which jobs ended as a GPU that they held failed, and the most that this lost."""

from collections.abc import Iterable
from datetime import timedelta
from decimal import Decimal

from fleetwatch.figures import selectors as costs
from fleetwatch.figures.selectors import Scope
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.judgement.observations import DRAINED
from fleetwatch.lib.intervals import Interval, from_ms
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

JUST_BEFORE = timedelta(minutes=2)  # a GPU that breaks ends its job with it
CHECKPOINTED = "batch"  # the kind of job
NEAR_MS = int(JUST_BEFORE.total_seconds() * 1000)
_ENDS = read_statement("dashboard/sql/fault_ends.sql")


def ended_by_fault(jobs: Iterable[Job]) -> set[int]:
    """The ids of those of the jobs that a fault ended."""
    ends_ms = {job.pk: job.end_ms for job in jobs if job.end_ms is not None}
    if not ends_ms:
        return set()
    return _ended(list(ends_ms), min(ends_ms.values()), max(ends_ms.values()) + 1)


def ended_by_fault_within(interval: Interval) -> set[int]:
    """The ids of all jobs that a fault ended in the interval."""
    return _ended(None, interval.start_ms, interval.end_ms)


def most_lost_usd(jobs: Iterable[Job]) -> dict[int, Decimal]:
    """By its id what all of a run cost, which is lost without a checkpoint; without jobs that write
    none, and those of which it is not known.
    """
    runs = [
        (job.pk, job.start_ms, job.end_ms)
        for job in jobs
        if job.kind == CHECKPOINTED and job.start_ms and job.end_ms and job.start_ms < job.end_ms
    ]
    if not runs:
        return {}
    ids, starts_ms, ends_ms = zip(*runs, strict=True)
    every = Interval(from_ms(min(starts_ms)), from_ms(max(ends_ms)))
    held = costs.held_by_job(every, Scope(jobs=ids))
    return {job_id: usd for job_id, (_, usd) in held.items()}


def _ended(job_ids: list[int] | None, start_ms: int, end_ms: int) -> set[int]:
    asked = {"job_ids": job_ids, "start_ms": start_ms, "end_ms": end_ms}
    rows = fetched(_ENDS, asked | {"near_ms": NEAR_MS, "drained": DRAINED})
    return {job_id for (job_id,) in rows}
