"""Which jobs ended as a GPU that they held failed."""

from collections.abc import Iterable
from datetime import timedelta

from fleetwatch.jobs.models import Job
from fleetwatch.ledger.judgement.observations import DRAINED
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

JUST_BEFORE = timedelta(minutes=2)  # a GPU that breaks ends its job with it
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


def _ended(job_ids: list[int] | None, start_ms: int, end_ms: int) -> set[int]:
    asked = {"job_ids": job_ids, "start_ms": start_ms, "end_ms": end_ms}
    rows = fetched(_ENDS, asked | {"near_ms": NEAR_MS, "drained": DRAINED})
    return {job_id for (job_id,) in rows}
