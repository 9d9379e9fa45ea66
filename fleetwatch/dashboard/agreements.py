"""What people agreed on about a job's waste: who, when, why and until when; a page opens with it,
and what ends the job comes behind it.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse
from django.utils.text import capfirst

from fleetwatch.accounts.colleagues import show_people
from fleetwatch.alerts.incidents.incident_inbox import IS_ACCEPTED
from fleetwatch.alerts.models import IncidentEvent
from fleetwatch.alerts.selectors import visible_incidents
from fleetwatch.dashboard.problems import Problem
from fleetwatch.diagnosis.findings.inbox import Explained
from fleetwatch.diagnosis.findings.ranked_findings import Line
from fleetwatch.diagnosis.models import Said
from fleetwatch.jobs.models import Job

# as the page says it, by how a finding stands
DECIDED = {
    "accepted": "Accepted, until it is marked fixed: somebody will change it",
    "dismissed": "Not waste, until somebody reopens it",
    "snoozed": "Snoozed",
}


@dataclass(frozen=True, slots=True)
class Agreement:
    """`what` says until when, where it has an end that is no moment; `until` is one. `by` and `at`:
    "" and None where that was not written down.
    """

    what: str
    why: str
    by: str
    at: datetime | None
    until: datetime | None
    address: str


def agreements(
    job: Job, problems: Iterable[Problem], lines: Iterable[Line], history: Sequence[Said]
) -> list[Agreement]:
    """What holds now of the job's incidents (`problems` that fire of it) and of these findings, of
    which the `history` tells, the newest first.
    """
    has_accepted = any(problem.kind == "accepted" for problem in problems)
    of_incidents = _of_incidents(job) if has_accepted else []
    decided = (_of_finding(line, history) for line in lines if line.status in DECIDED)
    return [*of_incidents, *filter(None, decided)]


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


def _of_incidents(job: Job) -> list[Agreement]:
    """Those that somebody said are no waste; who and when by the newest line of their history."""
    incidents = visible_incidents().filter(IS_ACCEPTED, subject=job.key)
    rows = IncidentEvent.objects.filter(incident__in=incidents, kind="not_waste")
    events = list(rows.select_related("by").order_by("at", "pk"))
    show_people(events, "by")
    newest = {event.incident_id: event for event in events}
    return [
        Agreement(
            what=capfirst(until),
            why=why.strip(),
            by=_name(newest.get(incident.pk)),
            at=newest[incident.pk].at if incident.pk in newest else None,
            until=None,
            address=reverse("incident", args=[incident.pk]),
        )
        for incident in incidents
        for until, _, why in [incident.muted.partition(": ")]
    ]


def _of_finding(line: Line, history: Sequence[Said]) -> Agreement | None:
    """None where nobody said so: an operator's exemption is told by itself."""
    finding = line.finding
    of_it = (each for each in history if each.finding_id == finding.pk)
    decision = next((each for each in of_it if each.kind == line.status), None)
    if decision is None:
        return None
    return Agreement(
        what=DECIDED[line.status],
        why=decision.note,
        by=_name(decision),
        at=decision.at,
        until=finding.snoozed_until if line.status == "snoozed" else None,
        address=reverse("finding", args=[finding.pk]),
    )


def _name(row: IncidentEvent | Said | None) -> str:
    return row.by.get_username() if row is not None and row.by is not None else ""
