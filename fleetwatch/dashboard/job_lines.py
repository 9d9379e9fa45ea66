"""Jobs as lists show them: figures of a period, and why a job wastes."""

from collections.abc import Sequence
from dataclasses import dataclass

from fleetwatch.costs.mapping import attribution
from fleetwatch.diagnosis import selectors as diagnosis
from fleetwatch.diagnosis.causes import BY_CODE, of_job
from fleetwatch.diagnosis.selectors import Primary
from fleetwatch.figures.selectors import Group
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.outcomes import with_outcomes
from fleetwatch.lib.intervals import Interval


@dataclass(frozen=True, slots=True)
class JobLine:
    """A job's figures in the period; `job` is None when its row is gone."""

    group: Group
    job: Job | None
    cause: Primary | None

    @property
    def cause_title(self) -> str:
        """Why it wastes; "" where nothing was diagnosed."""
        if self.cause is None:
            return ""
        if self.cause.cause not in BY_CODE:
            return self.cause.cause
        return of_job(self.cause.cause, "", self.group.totals.coverage).title


def lines_of(groups: Sequence[Group], interval: Interval) -> list[JobLine]:
    """The jobs of these groups, with their causes."""
    jobs = attribution.jobs_by_key((group.key for group in groups), before=interval.end)
    with_outcomes(jobs.values())
    causes = diagnosis.causes_of([job.pk for job in jobs.values()], interval)
    lines = []
    for group in groups:
        job = jobs.get(group.key)
        lines.append(JobLine(group, job, causes.get(job.pk) if job else None))
    return lines
