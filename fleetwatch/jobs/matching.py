"""Which of the jobs that are stored under one key is which of those that are believed now."""

from collections.abc import Callable, Sequence

from fleetwatch.jobs.models import Job
from fleetwatch.jobs.records import KnownJob

# A row that fits a job by an earlier rule is not left for a later one.
RULES: tuple[Callable[[KnownJob, Job], bool], ...] = (
    lambda job, row: (row.user, row.account) == (job.facts.user, job.facts.account),
    lambda job, row: any(record.job_id == row.pk for record in job.records),
    lambda job, row: True,
)


def matched(jobs: Sequence[KnownJob], rows: Sequence[Job]) -> list[int | None]:
    """By position of the job: the row that it is from now on; None = a new one.

    The row of the same owner comes first, so that nobody moves what others hold by naming another
    owner of his own; then a row of the job's own records, whose owner became known or another; then
    any that is left: its records have gone to other jobs.
    """
    free = sorted(rows, key=lambda row: row.pk)
    chosen: dict[int, int] = {}
    for is_fit in RULES:
        for place, job in enumerate(jobs):
            row = None if place in chosen else next((row for row in free if is_fit(job, row)), None)
            if row is not None:
                chosen[place] = row.pk
                free.remove(row)
    return [chosen.get(place) for place in range(len(jobs))]
