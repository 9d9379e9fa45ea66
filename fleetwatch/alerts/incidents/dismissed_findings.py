"""Findings of jobs that people closed as no waste: nor are the job's incidents of the same cause,
until somebody reopens them.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from glob import escape

from django.db.models import QuerySet

from fleetwatch.alerts.covered_causes import COVERED
from fleetwatch.alerts.incidents.muting import ACCEPTED, Mute
from fleetwatch.alerts.matchers import Matcher
from fleetwatch.alerts.models import Incident, Rule, Silence
from fleetwatch.diagnosis.causes import OF_WORK
from fleetwatch.diagnosis.models import Finding, Said

NEVER = datetime(9999, 1, 1, tzinfo=UTC)  # ends by itself
AGREEMENT_ENDS = "somebody ends that agreement"
BY_DISMISSAL = f"{ACCEPTED} until {AGREEMENT_ENDS}"  # how Incident.muted begins that says so


def findings_of(incident: Incident) -> QuerySet[Finding]:
    """Of the job that it is about those for which its rule fires."""
    return Finding.objects.filter(job__key=incident.subject, cause__in=causes_of(incident))


def causes_of(incident: Incident) -> tuple[str, ...]:
    """Those for which its rule fires of a job: of jobs that work the one of its cause."""
    causes = COVERED.get(incident.rule.condition, ())
    if causes == OF_WORK:
        return tuple(incident.facts.get("labels", {}).get("cause", ()))
    return causes


def dismissed_jobs() -> QuerySet[Finding, str]:
    """The keys of the jobs of which somebody closed a finding as no waste."""
    dismissed = Finding.objects.filter(status=Finding.Status.DISMISSED, decided_at__isnull=False)
    return dismissed.filter(job__isnull=False).values_list("job__key", flat=True)


def dismissals(subjects: Iterable[str] | QuerySet[Incident, str]) -> list[Mute]:
    """What holds back the incidents of these subjects of which somebody closed the finding."""
    dismissed = Finding.objects.filter(
        status=Finding.Status.DISMISSED, decided_at__isnull=False, job__key__in=subjects
    )
    findings = list(dismissed.select_related("job").order_by("pk"))
    if not findings:
        return []
    notes = _notes(findings)
    rules = list(Rule.objects.filter(condition__in=COVERED).values_list("condition", "name"))
    mutes = []
    for finding in findings:
        names = [name for condition, name in rules if finding.cause in COVERED[condition]]
        if names:
            mutes.append(_mute(finding, names, notes.get(finding.pk, "")))
    return mutes


def _notes(findings: Iterable[Finding]) -> dict[int, str]:
    """By finding why it was closed last."""
    rows = Said.objects.filter(finding__in=findings, kind=Said.Kind.DISMISSED)
    return dict(rows.order_by("at", "pk").values_list("finding_id", "note"))


def _mute(finding: Finding, rules: Iterable[str], note: str) -> Mute:
    # names are not patterns: a job called * is one job; the first matcher leaves out most
    of_job = (
        Matcher("subject", (escape(finding.its_job.key),)),
        Matcher("rule", tuple(map(escape, rules))),
    )
    of_cause = (Matcher("cause", (finding.cause,)),) if finding.cause in OF_WORK else ()
    return Mute(
        kind=Silence.Kind.JUSTIFICATION,
        matchers=of_job + of_cause,
        starts_at=finding.decided_at or NEVER,
        ends_at=NEVER,
        reason=note,
        ended_by=AGREEMENT_ENDS,
    )
