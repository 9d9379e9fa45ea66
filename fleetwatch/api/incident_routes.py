"""Incidents in the API: what breached a rule, whose it is, what it costs, who was told; and what
people do about them.
"""

from datetime import datetime
from typing import Annotated, Literal

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router, Schema
from ninja.security import django_auth
from pydantic import AwareDatetime, Field

from fleetwatch.accounts.models import User
from fleetwatch.alerts import selectors
from fleetwatch.alerts.incidents import incident_actions
from fleetwatch.alerts.incidents.incident_inbox import of_owner, of_person
from fleetwatch.alerts.models import Incident
from fleetwatch.api.answer_types import (
    Answer,
    At,
    AtOrNone,
    Joined,
    NameOf,
    SlugOrNone,
    TextOrNone,
    UsdOrNone,
    attribute,
)
from fleetwatch.api.auth import WriteToken
from fleetwatch.api.request_period import asked, required
from fleetwatch.api.schemas import Facts, ListedInPeriod, Name, NameGiven, Paging, PeriodAsked
from fleetwatch.api.vocabulary import IncidentState, NotificationState, Severity, Verdict
from fleetwatch.diagnosis.findings import deciding

router = Router(tags=["incidents"])

UsernameOrNone = Annotated[str | None, attribute("username")]


class IncidentRow(Schema):
    """One breach of one rule by one subject: `kind` and `subject` are its page (a job and its key).

    `since`, `fired_at`, `until` and `ended_at` are the telemetry's time: when the breach began, had
    lasted as long as the rule asks, was seen last and was over. `opened_at` and `resolved_at` are
    when that was noticed. `owner` is whom the telemetry names, `person` the account that is his.
    `muted` is why nobody is told, `note` what keeps us from knowing. `usd` are dollars so far.
    """

    id: int
    rule: NameOf
    condition: str = Field(alias="rule.condition")
    severity: Severity = Field(alias="rule.severity")
    state: IncidentState
    kind: str
    subject: str
    title: str
    since: At = Field(alias="since_ms")
    fired_at: AtOrNone = Field(alias="fired_ms")
    until: At = Field(alias="until_ms")
    ended_at: AtOrNone = Field(alias="ended_ms")
    opened_at: datetime
    updated_at: datetime
    acknowledged_at: datetime | None
    snoozed_until: datetime | None
    resolved_at: datetime | None
    resolution: str
    owner: TextOrNone
    person: UsernameOrNone
    assignee: UsernameOrNone
    team: SlugOrNone
    usd: UsdOrNone = Field(alias="cost_usd")
    usd_per_hour: UsdOrNone
    has_example_rates: bool
    muted: str
    note: str
    verdict: Verdict
    is_late: bool = Field(description="more than 15 minutes old when it arrived: never told")
    facts: Facts = Field(alias="of_condition")


class IncidentPage(ListedInPeriod[IncidentRow]):
    """Incidents that were open at some moment of the period, the newest first."""


class TimelineLine(Schema):
    """What happened, or who did what (`by` null: FleetWatch)."""

    at: datetime
    kind: str
    text: str
    by: UsernameOrNone


class NotificationRow(Schema):
    """Whom a message of it went to at `due_at`, or who was spared it, and why; `person` null: the
    channel's own readers.
    """

    kind: str
    step: int
    channel: NameOf
    person: UsernameOrNone
    why: str
    state: NotificationState
    created_at: datetime
    due_at: datetime


class Measurement(Schema):
    label: str
    value: str


class IncidentDetail(IncidentRow):
    """An incident with what was measured, what to do, what happened to it and who was told."""

    what: str
    limit: str
    labels: dict[str, list[str]]
    measurements: list[Measurement]
    advice: list[str]
    timeline: list[TimelineLine]
    notifications: list[NotificationRow]


class IncidentDecision(Schema):
    """`reason` is needed for not_waste; `until` (with a zone) ends a snooze (without it 4 hours) or
    a justification (7 days), `assignee` is a user name ("" = nobody).
    """

    reason: Annotated[NameGiven, Field(max_length=incident_actions.MAX_REASON)] = ""
    until: AwareDatetime | None = None
    assignee: Annotated[NameGiven, Field(max_length=150)] = ""


Action = Literal["acknowledge", "snooze", "unsnooze", "resolve", "assign", "not_waste", "fixed"]


class Which(Schema):
    """Which incidents: in a state (without one all but pending ones), of a rule by its name, of a
    team, of a user by the account's name or by what jobs' owner is called (also as `person`).
    """

    state: IncidentState | None = None
    rule: Name = None
    team: Name = None
    user: Name = None


@router.get("/incidents", operation_id="listIncidents", response=IncidentPage)
def incidents(
    request: HttpRequest, period: PeriodAsked, which: Query[Which], paging: Paging
) -> Answer:
    """Incidents that were open at some moment of the period."""
    wanted = asked(request)
    rows = selectors.open_within(selectors.visible_incidents(), wanted.interval)
    if which.state is None:
        rows = rows.exclude(state=Incident.State.PENDING)
    narrowed = {
        "state": which.state,
        "rule__name": which.rule,
        "team__slug": which.team,
    }
    rows = rows.filter(**{name: value for name, value in narrowed.items() if value is not None})
    if which.user is not None:
        rows = rows.filter(of_person(which.user) | of_owner(which.user))
    page, following = wanted.page(rows, paging.limit)
    views = map(incident_row, selectors.views_of(page))
    return wanted.answer(rows=list(views), next_cursor=following)


@router.get("/incidents/{int:number}", operation_id="getIncident", response=IncidentDetail)
def incident(request: HttpRequest, number: int) -> Joined:
    """One incident with its timeline."""
    return incident_detail(_incident(number))


@router.post(
    "/incidents/{int:number}/{action}",
    operation_id="actOnIncident",
    response=IncidentDetail,
    auth=[WriteToken(), django_auth],
)
def act_on_incident(
    request: HttpRequest, number: int, action: Action, wanted: IncidentDecision | None = None
) -> Joined:
    """Acknowledge, snooze, unsnooze (takes a snooze back), resolve, assign, not_waste (this rule
    tells nobody of it until a day), fixed: for operators, whose it is, whom it was given to, and
    who leads the team. A body may be left out.
    """
    user: User = getattr(request, "auth")  # noqa: B009 - Ninja's name for who asks
    incident = _incident(number)
    meant = _meant(action, wanted or IncidentDecision())
    incident_actions.act(incident.pk, meant, by=user, now=timezone.now())
    return incident_detail(_incident(number))


def _meant(action: Action, wanted: IncidentDecision) -> incident_actions.Action:
    """Raises RefusedFieldError."""
    kind = "ack" if action == "acknowledge" else action  # the button's short word
    whose = deciding.assignee(wanted.assignee) if action == "assign" else None
    return incident_actions.Action(kind, wanted.reason, wanted.until, whose)


def _incident(number: int) -> Incident:
    """The one that the reader may see. Raises RequestError."""
    seen = selectors.visible_incidents().filter(pk=number).first()
    return required(seen, "incident", field="number")


def incident_row(view: selectors.IncidentView) -> Joined:
    """The incident with what was true when it was looked at last."""
    return Joined(view.incident, view.breach)


def incident_detail(incident: Incident) -> Joined:
    view = selectors.view_of(incident)
    return Joined(
        incident_row(view),
        measurements=[Joined(label=label, value=value) for label, value in view.breach.lines],
        advice=view.breach.actions,
        timeline=selectors.timeline(incident),
        notifications=selectors.notifications(incident),
    )
