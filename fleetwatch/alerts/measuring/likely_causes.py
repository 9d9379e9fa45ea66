"""What diagnosis says meanwhile of jobs that incidents are about: of one by its newest window, of
those of a list by the numbers that were noted of them, in a constant number of statements.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from fleetwatch.accounts.selectors import zone
from fleetwatch.alerts.breach import Breach
from fleetwatch.alerts.measuring.episode_causes import primary_causes_within
from fleetwatch.diagnosis import selectors as diagnosis
from fleetwatch.diagnosis.cause import Cause, Step
from fleetwatch.diagnosis.cause_totals import nothing
from fleetwatch.diagnosis.causes import BY_CODE, UNDETERMINED, of_kind
from fleetwatch.diagnosis.findings import noted_facts
from fleetwatch.diagnosis.findings.advice import Advice, aimed
from fleetwatch.diagnosis.findings.inbox import explained
from fleetwatch.diagnosis.findings.ranked_findings import Line, status
from fleetwatch.diagnosis.models import Finding
from fleetwatch.diagnosis.shell import Place
from fleetwatch.figures import boundaries
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import Interval, from_ms

Key = tuple[int, str]  # a job's id and a cause
Asked = tuple[int, Job, Breach]  # its place among those that were asked for
NO_FINDING = (None, None)


@dataclass(frozen=True, slots=True)
class Likely:
    """What diagnosis says of a job meanwhile; `finding_id` None where it is no finding."""

    title: str
    sentence: str
    finding_id: int | None
    steps: list[Step]


def likely(breach: Breach, now: datetime) -> Likely | None:
    """Why a job wasted meanwhile, as its finding is called; None where diagnosis knows no cause
    yet, and of what is no job.
    """
    job = Job.objects.filter(key=breach.subject).first() if breach.kind == "job" else None
    if job is None:
        return None
    primary = diagnosis.causes_of([job.pk], meanwhile(breach)).get(job.pk)
    if primary is None or not _is_named(primary.cause):
        return None
    finding = Finding.objects.filter(job=job, cause=primary.cause).first()
    advice = explained(finding, meanwhile(breach), now=now).advice if finding else None
    return _likely(of_kind(primary.cause, job.kind), job, finding, advice)


def likely_of_several(breaches: Sequence[Breach], now: datetime) -> list[Likely | None]:
    """The same of each of these."""
    asked = _of_jobs(breaches)
    causes = _causes(asked)
    named = {place: (job, causes[place]) for place, job, _ in asked if place in causes}
    advised = _advised({(job.pk, cause) for job, cause in named.values()}, now)
    several: list[Likely | None] = [None] * len(breaches)
    for place, (job, cause) in named.items():
        several[place] = _likely(
            of_kind(cause, job.kind), job, *advised.get((job.pk, cause), NO_FINDING)
        )
    return several


def _of_jobs(breaches: Sequence[Breach]) -> list[Asked]:
    """Those that are of a job that is known, each with its place."""
    keys = {breach.subject for breach in breaches if breach.kind == "job"}
    jobs = {job.key: job for job in Job.objects.filter(key__in=keys)} if keys else {}
    return [
        (place, jobs[breach.subject], breach)
        for place, breach in enumerate(breaches)
        if breach.kind == "job" and breach.subject in jobs
    ]


def meanwhile(breach: Breach) -> Interval:
    """While it went on."""
    return Interval(from_ms(breach.since_ms), from_ms(max(breach.until_ms, breach.since_ms + 1)))


def _likely(cause: Cause, job: Job, finding: Finding | None, advice: Advice | None) -> Likely:
    if finding is None or advice is None:
        step = aimed(cause.fixes[0], Place(is_over=job.end_ms is not None))
        return Likely(cause.title, cause.sentence, None, [step])
    return Likely(cause.title, advice.sentence, finding.pk, [*advice.numbered])


def _is_named(cause: str) -> bool:
    """Whether it says why something is wrong: what nothing is to be done about does not."""
    return cause in BY_CODE and cause != UNDETERMINED and bool(BY_CODE[cause].fixes)


def _causes(asked: Sequence[Asked]) -> dict[int, str]:
    """By place the job's cause, where diagnosis names one."""
    if not asked:
        return {}
    spans = [boundaries.outward(meanwhile(breach), zone()) for *_, breach in asked]
    primary = primary_causes_within(
        [job.pk for _, job, _ in asked],
        [span.start for span in spans],
        [span.end for span in spans],
    )
    return {
        asked[number][0]: each.cause for number, each in primary.items() if _is_named(each.cause)
    }


def _advised(keys: Collection[Key], now: datetime) -> dict[Key, tuple[Finding, Advice]]:
    """Of these jobs and causes the findings that there are, with what to do about them."""
    findings = Finding.objects.filter(
        job__in={job_id for job_id, _ in keys}, cause__in={cause for _, cause in keys}
    )
    bare = [
        Line(finding, nothing(finding.job_id, finding.cause), status(finding, now))
        for finding in findings
        if (finding.job_id, finding.cause) in keys
    ]
    lines = diagnosis.with_jobs(bare, before=now) if bare else []
    return {
        (line.job.pk, line.finding.cause): (line.finding, advice)
        for line, advice in zip(lines, noted_facts.advice_of(lines), strict=True)
    }
