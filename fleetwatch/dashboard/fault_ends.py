"""Which jobs ended as a GPU that they held failed, and the most that this lost."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from decimal import Decimal

from fleetwatch.alerts.measuring.last_holders import JUST_BEFORE_MS
from fleetwatch.figures import selectors as costs
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.judgement.observations import DRAINED
from fleetwatch.lib.intervals import MINUTE_MS, Interval, from_ms
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

JUST_BEFORE = timedelta(milliseconds=JUST_BEFORE_MS)
MOST_RESTARTED = 20  # jobs: what each cost is read by itself
CHECKPOINTED = "batch"  # the kind of job
SILENT_MS = 15 * MINUTE_MS  # a GPU that hangs may say nothing of its job before it is lost
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


def most_lost_usd(jobs: Iterable[Job]) -> dict[int, Decimal | None]:
    """By its id what all of a run cost, which is lost without a checkpoint, None where that is not
    known; without jobs that write none.
    """
    return runs_usd([job for job in jobs if job.kind == CHECKPOINTED])


def runs_usd(jobs: Sequence[Job]) -> dict[int, Decimal | None]:
    """By its id what all of a job's run cost; None where its times, or some rate, are not known,
    and of restarted jobs beyond the MOST_RESTARTED last ones.
    """
    timed = [job for job in jobs if job.start_ms and job.end_ms and job.start_ms < job.end_ms]
    # those that ran once held nothing outside their run: all are read at once
    together = [job for job in timed if not job.restarts]
    restarted = sorted(
        (job for job in timed if job.restarts), key=lambda job: (job.end_ms, job.pk), reverse=True
    )
    alone = [[job] for job in restarted[:MOST_RESTARTED]]
    usd_of = {pk: usd for part in (together, *alone) for pk, usd in _read_usd(part).items()}
    return {job.pk: usd_of.get(job.pk) for job in jobs}


def _read_usd(jobs: Sequence[Job]) -> dict[int, Decimal]:
    """What they cost from the first start to the last end."""
    if not jobs:
        return {}
    start_ms = min(job.start_ms or 0 for job in jobs)
    end_ms = max(job.end_ms or 0 for job in jobs)
    return costs.cost_of_jobs(
        Interval(from_ms(start_ms), from_ms(end_ms)), [job.pk for job in jobs]
    )


def _ended(job_ids: list[int] | None, start_ms: int, end_ms: int) -> set[int]:
    asked = {"job_ids": job_ids, "start_ms": start_ms, "end_ms": end_ms}
    limits = {"near_ms": JUST_BEFORE_MS, "silent_ms": SILENT_MS, "drained": DRAINED}
    rows = fetched(_ENDS, asked | limits)
    return {job_id for (job_id,) in rows}
