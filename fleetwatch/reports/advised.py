"""Why the jobs of a report's savings list wasted, and what to do first, as diagnosis has it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fleetwatch.diagnosis import selectors as diagnosis
from fleetwatch.diagnosis.causes import BY_CODE, of_kind
from fleetwatch.diagnosis.findings import inbox
from fleetwatch.diagnosis.models import Finding
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import Interval
from fleetwatch.reports.statement import Shape


@dataclass(frozen=True, slots=True)
class Advised:
    """A cause by its code and title, and the first thing to do about it; "" = nothing."""

    code: str
    title: str
    first_step: str


def advised(keys: Sequence[str], interval: Interval) -> dict[str, Advised]:
    """By the job's key; jobs of which nothing was diagnosed, or is kept, are left out. The step is
    the one that the finding's own page begins with; without a finding what holds of the cause.
    """
    jobs = Job.objects.filter(key__in=keys)
    causes = diagnosis.causes_of([job.pk for job in jobs], interval)
    by_job = {job: causes[job.pk].cause for job in jobs if job.pk in causes}
    findings = _findings(by_job)
    return {
        job.key: _advised(code, job, findings.get((job.pk, code)), interval)
        for job, code in by_job.items()
        if code in BY_CODE
    }


def apart_from_dismissed(savings: Sequence[Shape]) -> tuple[list[Shape], list[Shape]]:
    """The lines of a savings list, and apart those of which people said that it is no waste."""
    codes = {line["job"]: line["cause"]["code"] for line in savings if line.get("cause")}
    dismissed = Finding.objects.filter(job__key__in=codes, status=Finding.Status.DISMISSED)
    left_out = {
        key for key, code in dismissed.values_list("job__key", "cause") if codes[key] == code
    }
    kept = [line for line in savings if line["job"] not in left_out]
    return kept, [line for line in savings if line["job"] in left_out]


def _findings(causes: Mapping[Job, str]) -> dict[tuple[int, str], Finding]:
    """By their job and cause, of these causes."""
    of_causes = Finding.objects.filter(job__in=causes, cause__in=set(causes.values()))
    return {(each.its_job.pk, each.cause): each for each in of_causes.select_related("job")}


def _advised(code: str, job: Job, finding: Finding | None, interval: Interval) -> Advised:
    cause = of_kind(code, job.kind)
    if finding:
        step = inbox.explained(finding, interval, now=interval.end).advice.first.text
    else:
        step = cause.fixes[0].text if cause.fixes else ""
    return Advised(code, cause.title, step)
