"""What waits for somebody who may decide more than about the own jobs: by the rights of a role."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse

from fleetwatch.accounts.models import Identity, User
from fleetwatch.accounts.permissions import Right, rights
from fleetwatch.accounts.selectors import zone
from fleetwatch.alerts.incidents import incident_inbox
from fleetwatch.alerts.selectors import visible_incidents
from fleetwatch.diagnosis.cause_totals import Saving
from fleetwatch.diagnosis.findings.inbox import Inbox
from fleetwatch.reports import months, team_months


@dataclass(frozen=True, slots=True)
class Duty:
    """So many things wait: what they are, where they are decided, and what deciding them could save
    (None: nothing that is known in dollars).
    """

    count: int
    label: str
    url: str
    saving: Saving | None = None


def duties(user: User, findings: Inbox, now: datetime) -> list[Duty]:
    """What waits for the user, of the whole fleet's findings and of each of his rights; nothing for
    who has none.
    """
    owned = rights(user)
    if not owned:
        return []
    waiting = [_findings(findings), *(make(now) for right, make in _OF_RIGHTS if right in owned)]
    return [duty for duty in waiting if duty.count]


def _findings(findings: Inbox) -> Duty:
    unassigned = findings.assigned(None).of_status("open")
    return Duty(
        unassigned.counts()["open"],
        "Open findings given to nobody",
        reverse("findings"),
        unassigned.saving("open"),
    )


def _incidents(now: datetime) -> Duty:
    firing = incident_inbox.counts(visible_incidents(), now)["firing"]
    return Duty(firing, "Incidents firing that nobody acknowledged", reverse("alerts"))


def _statements(now: datetime) -> Duty:
    """Those of the last month that is over."""
    month = months.last_full(now, zone())
    lines = team_months.lines_of(months.start(month, zone()))
    label = f"Statements of {months.in_words(month)} not approved"
    unapproved = sum(not line.approved_by for line in lines)
    return Duty(unapproved, label, f"{reverse('reports')}#statements")


def _claims(_: datetime) -> Duty:
    claims = Identity.objects.filter(confirmed_at=None, user__is_active=True)
    return Duty(claims.count(), "Names that people claim, to be confirmed", reverse("people"))


_OF_RIGHTS: tuple[tuple[Right, Callable[[datetime], Duty]], ...] = (
    (Right.FLEET, _incidents),
    (Right.MONEY, _statements),
    (Right.PEOPLE, _claims),
)
