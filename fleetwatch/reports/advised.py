"""Why the jobs of a report's savings list wasted, and what to do first, as diagnosis has it."""

from collections.abc import Sequence
from dataclasses import dataclass

from fleetwatch.diagnosis import selectors as diagnosis
from fleetwatch.diagnosis.causes import BY_CODE, of_kind
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import Interval


@dataclass(frozen=True, slots=True)
class Advised:
    """A cause by its code and title, and the first thing to do about it; "" = nothing."""

    code: str
    title: str
    first_step: str


def advised(keys: Sequence[str], interval: Interval) -> dict[str, Advised]:
    """By the job's key; jobs of which nothing was diagnosed, or is kept, are left out."""
    jobs = Job.objects.filter(key__in=keys)
    causes = diagnosis.causes_of([job.pk for job in jobs], interval)
    return {
        job.key: _advised(causes[job.pk].cause, job.kind)
        for job in jobs
        if job.pk in causes and causes[job.pk].cause in BY_CODE
    }


def _advised(code: str, kind: str) -> Advised:
    cause = of_kind(code, kind)
    return Advised(code, cause.title, cause.fixes[0].text if cause.fixes else "")
