"""How jobs went, as far as it is known: a job whose end nobody told is not said to run for ever."""

from collections.abc import Iterable, Sequence

from fleetwatch.jobs.allocation_sources import ENDED_WITH_THE_JOB
from fleetwatch.jobs.models import Job
from fleetwatch.lib.sql import execute, read_statement

LEFT_JOBS = read_statement("jobs/sql/left_jobs.sql")
RUNNING = "RUNNING"
ENDED = "ENDED"  # no scheduler's word: it is over, and how it ended was not told
# As long as an agent may take to ask its scheduler about a job that it lost sight of.
LAG_MS = 10 * 60_000


def with_outcomes(jobs: Iterable[Job]) -> list[Job]:
    """The jobs; those that are told to run, and whose scheduler answered long after their holds
    without naming them, are ENDED.

    Nothing is written: when it is named again, as a requeued one is, it runs.
    """
    all_jobs = list(jobs)
    running = [job for job in all_jobs if job.state == RUNNING and job.end_ms is None]
    if not running:
        return all_jobs
    left = _left([job.pk for job in running])
    for job in running:
        if job.pk in left:
            job.state = ENDED
    return all_jobs


def running_ids() -> list[int]:
    """The ids of the jobs that run now, as far as it is known."""
    job_ids = list(Job.objects.filter(state=RUNNING, end_ms=None).values_list("pk", flat=True))
    left = _left(job_ids)
    return [job_id for job_id in job_ids if job_id not in left]


def _left(job_ids: Sequence[int]) -> set[int]:
    """Those that their scheduler names no longer."""
    asked = {"job_ids": job_ids, "lag_ms": LAG_MS, "schedulers": list(ENDED_WITH_THE_JOB)}
    return {job_id for (job_id,) in execute(LEFT_JOBS, asked)}
