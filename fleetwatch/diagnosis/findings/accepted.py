"""Fixes that were accepted and are still to do."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from fleetwatch.accounts.models import Identity
from fleetwatch.diagnosis.models import Finding
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.visible_jobs import under


@dataclass(frozen=True, slots=True)
class AcceptedFix:
    """A cause that was accepted in jobs of one owner and name, as one thing to do.

    `findings` are of those jobs, the newest first; `since` is when the first of them was accepted,
    None where that was not written down.
    """

    findings: Sequence[Finding]
    since: datetime | None

    @property
    def newest(self) -> Finding:
        return self.findings[0]


def accepted_fixes(names: Sequence[Identity]) -> list[AcceptedFix]:
    """Those of jobs under these names, whenever the jobs ran; what waits longest first."""
    of_fix: dict[tuple[str, str, str], list[Finding]] = defaultdict(list)
    findings = Finding.objects.filter(
        status=Finding.Status.ACCEPTED, job__in=Job.objects.filter(under(names))
    )
    for finding in findings.select_related("job").order_by("-last_ms", "-pk"):
        job = finding.its_job
        of_fix[finding.cause, job.user, job.name or job.key].append(finding)
    return sorted(map(_fix, of_fix.values()), key=_waits_since)


def _fix(findings: Sequence[Finding]) -> AcceptedFix:
    decided = [finding.decided_at for finding in findings if finding.decided_at is not None]
    return AcceptedFix(findings, min(decided, default=None))


def _waits_since(fix: AcceptedFix) -> tuple[bool, float]:
    return fix.since is not None, fix.since.timestamp() if fix.since else 0.0
