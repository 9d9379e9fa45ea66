"""What people agreed on about a job's waste: who, when, why and until when; a page opens with it,
and what ends the job comes behind it.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.urls import reverse

from fleetwatch.accounts.models import User
from fleetwatch.accounts.visibility import sight
from fleetwatch.alerts.exempt_jobs import exempt
from fleetwatch.alerts.incidents.acceptances import acceptance_of, acceptances
from fleetwatch.alerts.incidents.dismissed_findings import findings_of
from fleetwatch.alerts.models import Incident, IncidentEvent, Silence
from fleetwatch.alerts.selectors import timeline
from fleetwatch.alerts.silences import endable, in_words
from fleetwatch.diagnosis.findings.inbox import Explained
from fleetwatch.diagnosis.findings.ranked_findings import EXEMPT, Line, status
from fleetwatch.diagnosis.models import Finding, Said
from fleetwatch.diagnosis.selectors import history
from fleetwatch.jobs.models import Job

NOT_WASTE = "not waste"
APPROVED = f"{NOT_WASTE}, an operator approved of it"
# as the page says it, by how a finding stands
DECIDED = {
    "accepted": "Accepted, until it is marked fixed: somebody will change it",
    "dismissed": f"{NOT_WASTE}, until somebody reopens it",
    "snoozed": "Snoozed",
}


@dataclass(frozen=True, slots=True)
class Agreement:
    """`what` says until when, where it has an end that is no moment; `until` is one. `by` and `at`:
    "" and None where that was not written down. `address`: where it was said, "" on that page.
    `is_of_finding`: it was decided about the finding itself, whose history says so.
    """

    what: str
    why: str
    by: str
    at: datetime | None
    until: datetime | None
    address: str
    is_of_finding: bool = False
    exemption_id: int | None = None
    may_end: bool = False  # the reader may end the exemption
    of: str = ""  # what the exemption is for, in words, for who may see that

    @property
    def is_no_waste(self) -> bool:
        """Whether somebody said that the time is no waste: the ledger counts it on."""
        return self.what in (NOT_WASTE, APPROVED, DECIDED["dismissed"])

    @property
    def tag(self) -> str:
        """What stands before `what`."""
        if self.is_put_off:
            return "snoozed"
        return "agreed as" if self.what.startswith(NOT_WASTE) else "agreed"

    @property
    def title(self) -> str:
        """What was agreed, by itself."""
        return f"Agreed as {self.what}" if self.what.startswith(NOT_WASTE) else self.what

    @property
    def is_put_off(self) -> bool:
        """Whether it is looked at again later: nobody agreed to anything."""
        return self.what == DECIDED["snoozed"]


def agreements(
    job: Job, lines: Iterable[Line], remarks: Sequence[Said], *, reader: User, now: datetime
) -> list[Agreement]:
    """What holds now of the job's incidents and of these findings, of which these are the
    `remarks`, the newest first; of exemptions whether the reader may end them.
    """
    shown = list(lines)
    decided = (_of_finding(line.finding, line.status, remarks) for line in shown)
    return [*_of_incidents(job, now), *_of_exemptions(shown, reader, now), *filter(None, decided)]


def behind_what(agreed: Collection[Agreement], seen: Explained) -> str:
    """As which case what is to be done about the finding comes, where it stands behind what was
    agreed: the first thing would end the job, or somebody said that this is no waste. "" where it
    does not.
    """
    is_no_waste = seen.exemption is not None or seen.line.status == "dismissed"
    if not is_no_waste and not (agreed and seen.advice.cause.is_ended):
        return ""
    is_over = seen.line.finding.its_job.end_ms is not None
    return "If it is to change" if is_over else "If it is no longer wanted"


def _of_incidents(job: Job, now: datetime) -> list[Agreement]:
    """Those that somebody said are no waste."""
    return [
        _of_silence(each.silence, reverse("incident", args=[each.incident.pk]))
        for each in acceptances(job.key, now)
    ]


def _of_exemptions(lines: Iterable[Line], reader: User, now: datetime) -> list[Agreement]:
    """Of findings that an exemption covers, each exemption once."""
    keys = [
        (line.finding.its_job.pk, line.finding.cause) for line in lines if line.status == EXEMPT
    ]
    mutes = exempt(keys, now).values() if keys else ()
    exemptions = (mute for mute in mutes if mute.kind == Silence.Kind.EXEMPTION)
    ids = [mute.silence_id for mute in exemptions if mute.silence_id is not None]
    if not ids:
        return []
    silences = Silence.objects.filter(pk__in=ids).select_related("by", "approved_by").order_by("pk")
    may_end = endable(reader, list(silences), now=now)
    return [_of_exemption(silence, may_end=silence.pk in may_end) for silence in silences]


def _of_exemption(silence: Silence, *, may_end: bool) -> Agreement:
    """What else it is for is told to who sees everything, or may end it."""
    sees_it = may_end or sight() is None
    return replace(
        _of_silence(silence, f"{reverse('silences')}#silence-{silence.pk}", APPROVED),
        exemption_id=silence.pk,
        may_end=may_end,
        of=in_words(silence) if sees_it else "",
    )


def of_incident(incident: Incident, now: datetime) -> list[Agreement]:
    """What was said on its own page, or on that of another one of its rule and subject: that it is
    no waste; and what was decided on the finding of the same job and cause.
    """
    silence = acceptance_of(incident, now)
    findings = list(findings_of(incident).exclude(status=Finding.Status.OPEN))
    remarks = history(*findings) if findings else []
    decided = (_of_finding(each, status(each, now), remarks) for each in findings)
    return [*([_of_silence(silence, "")] if silence else []), *filter(None, decided)]


def past_events(incident: Incident, agreed: Iterable[Agreement]) -> list[IncidentEvent]:
    """What happened to it, and what of this was decided on its findings, the oldest first; in
    memory alone.
    """
    decided = (each for each in agreed if each.is_of_finding)
    events = [_event(each, each.at) for each in decided if each.at is not None]
    return sorted([*timeline(incident), *events], key=lambda event: event.at)


def _event(agreed: Agreement, at: datetime) -> IncidentEvent:
    by = f" by {agreed.by}" if agreed.by else ""
    why = f": {agreed.why}" if agreed.why else ""
    return IncidentEvent(kind="finding", at=at, text=f"{agreed.title}, on its finding{by}{why}")


def _of_silence(silence: Silence, address: str, what: str = NOT_WASTE) -> Agreement:
    """By who approved of it, else by who wrote it down."""
    return Agreement(
        what=what,
        why=silence.reason,
        by=silence.approved_by.get_username() if silence.approved_by else _name(silence),
        at=silence.created_at,
        until=silence.ends_at,
        address=address,
    )


def _of_finding(finding: Finding, stands: str, remarks: Sequence[Said]) -> Agreement | None:
    """None where nobody said so: an operator's exemption is told by itself."""
    of_it = (each for each in remarks if each.finding_id == finding.pk and stands in DECIDED)
    decision = next((each for each in of_it if each.kind == stands), None)
    if decision is None:
        return None
    return Agreement(
        what=DECIDED[stands],
        why=decision.note,
        by=_name(decision),
        at=decision.at,
        until=finding.snoozed_until if stands == "snoozed" else None,
        address=reverse("finding", args=[finding.pk]),
        is_of_finding=True,
    )


def _name(row: Silence | Said | None) -> str:
    return row.by.get_username() if row is not None and row.by is not None else ""
