"""Actions in the API: what is done by itself about idle jobs and broken GPUs, what was done, and
the way to keep what it is about to be done to as it is.
"""

from datetime import datetime
from typing import Annotated

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router, Schema
from ninja.security import django_auth
from pydantic import Field

from fleetwatch.accounts.models import User
from fleetwatch.actions import keeping, selectors
from fleetwatch.actions.models import Action
from fleetwatch.api.answer_types import (
    Answer,
    Joined,
    NameOf,
    NameOrNone,
    SlugOrNone,
    TextOrNone,
    Usd,
    attribute,
)
from fleetwatch.api.auth import WriteToken
from fleetwatch.api.request_period import ALWAYS, asked, required
from fleetwatch.api.schemas import Listed, ListedInPeriod, NameGiven, Paging, PeriodAsked
from fleetwatch.api.vocabulary import ActionKind, ActionState, JobKind

router = Router(tags=["actions"])

UsernameOrNone = Annotated[str | None, attribute("username")]
LARGEST_ID = 2**63 - 1


class ActionRow(Schema):
    """One ladder about one incident: from the first warning of `person` (null: of who runs the
    fleet) to what came of it. In a dry run nobody was warned, and nothing was done.

    `subject` is the job's key and `restarts` which run of it, or the name of the node that has a
    broken GPU. `gpus` are the job's, or all of the node, and cost `usd_per_hour`. `acted_at` is
    when the node's agent was asked, or the webhook called; `result` what became of it. `ended_at`
    null: it goes on.
    """

    id: int
    policy: int | None = Field(alias="policy_id")
    incident: int | None = Field(alias="incident_id")
    kind: ActionKind
    state: ActionState
    is_dry_run: bool
    subject: str
    restarts: int
    person: UsernameOrNone
    team: SlugOrNone
    node: NameOrNone
    gpus: int
    usd_per_hour: Usd
    began_at: datetime
    warned_again_at: datetime | None
    acted_at: datetime | None
    ended_at: datetime | None
    result: str
    kept_by: UsernameOrNone


class ActionPage(ListedInPeriod[ActionRow]):
    """What went on at some moment of the period, the newest first."""


class PolicyRow(Schema):
    """A policy of a rule. `sentence` says what it does, `whom` about whose jobs (no teams, or no
    job kinds, are nobody's; nodes have none). `is_dry_run`: nobody is warned, and nothing is done.

    Of `max_per_hour` jobs or nodes the GPUs cost `max_usd_per_hour` together at most. `channel` is
    the webhook that is called. `rehearsed_from` null: it was never switched on.
    """

    id: int
    rule: NameOf
    kind: ActionKind
    is_enabled: bool
    is_dry_run: bool
    sentence: str
    whom: str
    teams: list[str]
    job_kinds: list[JobKind]
    first_wait_minutes: int
    second_wait_minutes: int
    max_per_hour: int
    max_usd_per_hour: Usd
    channel: Annotated[TextOrNone, attribute("name")]
    rehearsed_from: datetime | None
    dry_run_until: datetime | None


class PolicyPage(Listed[PolicyRow]):
    """Every policy, those that are on first."""


class Which(Schema):
    """Which actions: in a state, of a policy, about an incident."""

    state: ActionState | None = None
    policy: int | None = Field(None, ge=1, le=LARGEST_ID)
    incident: int | None = Field(None, ge=1, le=LARGEST_ID)


class Kept(Schema):
    """Why it is kept as it is."""

    reason: Annotated[NameGiven, Field(max_length=keeping.MAX_REASON)] = ""


@router.get("/actions", operation_id="listActions", response=ActionPage)
def actions(
    request: HttpRequest, period: PeriodAsked, which: Query[Which], paging: Paging
) -> Answer:
    """What was done by itself, dry runs too; all of it unless a period is named. Who does not see
    everything has what was about the own jobs and the own teams'.
    """
    wanted = asked(request, whole=ALWAYS)
    rows = selectors.going_on_within(selectors.visible_actions(), wanted.interval)
    narrowed = {name: value for name, value in which.dict().items() if value is not None}
    page, following = wanted.page(rows.filter(**narrowed), paging.limit)
    return wanted.answer(rows=selectors.with_people_shown(page), next_cursor=following)


@router.get("/actions/{int:number}", operation_id="getAction", response=ActionRow)
def action(request: HttpRequest, number: int) -> Action:
    """One action."""
    return _action(number)


@router.post(
    "/actions/{int:number}/keep",
    operation_id="keepJob",
    response=ActionRow,
    auth=[WriteToken(), django_auth],
)
def keep_job(request: HttpRequest, number: int, wanted: Kept | None = None) -> Action:
    """Nothing is done about this run of the job, or about what is broken in the node now: for who
    was warned, and whoever may act on the incident. An order that the node's agent has already may
    be too late to withdraw.
    """
    user: User = getattr(request, "auth")  # noqa: B009 - Ninja's name for who asks
    reason = wanted.reason if wanted else ""
    keeping.keep(_action(number).pk, by=user, reason=reason, now=timezone.now())
    return _action(number)


@router.get("/action-policies", operation_id="listActionPolicies", response=PolicyPage)
def action_policies(request: HttpRequest, paging: Paging) -> Answer:
    """What is done by itself, and within which limits."""
    rows = selectors.policies(timezone.now())
    return asked(request).listed(rows, paging.limit, _policy_row)


@router.get("/action-policies/{int:number}", operation_id="getActionPolicy", response=PolicyRow)
def action_policy(request: HttpRequest, number: int) -> Joined:
    """One policy."""
    every = {view.policy.pk: view for view in selectors.policies(timezone.now())}
    return _policy_row(required(every.get(number), "policy", field="number"))


def _action(number: int) -> Action:
    """The one that the reader may see. Raises RequestError."""
    rows = selectors.visible_actions().filter(pk=number)
    seen = next(iter(selectors.with_people_shown(rows)), None)
    return required(seen, "action", field="number")


def _policy_row(view: selectors.PolicyView) -> Joined:
    teams = [team.slug for team in view.policy.teams.all()]
    return Joined(view, view.policy, teams=sorted(teams))
