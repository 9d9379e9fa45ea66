"""What else an agreement covers: whoever ends it ends it for all of that."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse

from fleetwatch.alerts.exempt_jobs import exempt_findings
from fleetwatch.diagnosis.causes import title
from fleetwatch.diagnosis.models import Finding

# scheduler, cluster, owner, name, cause: what the findings of a pattern have in common
PatternKey = tuple[str, str, str, str, str]


@dataclass(frozen=True, slots=True)
class Beside:
    """A finding that an agreement covers: its cause by name, what its job is called and whose that
    is, and its page.
    """

    pk: int
    title: str
    job_name: str
    owner: str
    address: str
    pattern: PatternKey


def beside(silence_ids: Collection[int], now: datetime) -> Mapping[int, list[Beside]]:
    """By the id of each of these what it covers, as far as the reader sees it."""
    by_silence = exempt_findings(silence_ids, now)
    return {pk: [_beside(each) for each in findings] for pk, findings in by_silence.items()}


def pattern_of(finding: Finding) -> PatternKey:
    """As diagnosis/findings/patterns.py puts findings together."""
    job = finding.its_job
    return job.scheduler, job.cluster, job.user, job.name, finding.cause


def one_of_each(several: Iterable[Beside], *, but: PatternKey) -> list[Beside]:
    """Of each pattern but that one the finding that was seen last."""
    firsts: dict[PatternKey, Beside] = {}
    for each in several:
        firsts.setdefault(each.pattern, each)
    return [each for key, each in firsts.items() if key != but]


def _beside(finding: Finding) -> Beside:
    job = finding.its_job
    return Beside(
        finding.pk,
        title(finding.cause),
        job.name or job.key,
        job.user,
        reverse("finding", args=[finding.pk]),
        pattern_of(finding),
    )
