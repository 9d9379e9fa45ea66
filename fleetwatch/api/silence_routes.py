"""Silences in the API: what is not told, from when to when, and why."""

from datetime import datetime
from typing import Annotated

from django.db.models import Q
from django.http import HttpRequest
from django.utils import timezone
from ninja import Body, Router, Schema
from ninja.security import django_auth
from pydantic import AwareDatetime, Field

from fleetwatch.accounts.colleagues import known, show_people
from fleetwatch.accounts.models import User
from fleetwatch.alerts import matchers, silences, weekly_hours
from fleetwatch.alerts.models import Silence
from fleetwatch.api.answer_types import Answer, Joined, attribute
from fleetwatch.api.auth import WriteToken
from fleetwatch.api.request_period import RequestError, asked, required
from fleetwatch.api.rule_routes import HoursRow, MatcherRow, hours_of, matchers_of
from fleetwatch.api.schemas import Listed, NameGiven, Paging
from fleetwatch.api.vocabulary import SilenceKind, SilenceState

# as Alertmanager has them
ACTIVE = "active"
PENDING = "pending"
EXPIRED = "expired"
PEOPLE = ("by", "approved_by")

router = Router(tags=["notifications"])


class SilenceRow(Schema):
    """What all of its matchers hold for is told nobody over [starts_at, ends_at), in these hours of
    a week (schedule null: always). It is active, pending until it begins, or expired.
    """

    id: int
    state: SilenceState
    kind: SilenceKind
    matchers: list[MatcherRow]
    starts_at: datetime
    ends_at: datetime
    schedule: HoursRow | None
    reason: str
    by: Annotated[str | None, attribute("username")]
    approved_by: Annotated[str | None, attribute("username")]
    created_at: datetime


class SilencePage(Listed[SilenceRow]):
    """The one that begins last first."""


class SilenceWanted(Schema):
    """A silence, a maintenance window or an exemption, which is what is agreed as not waste and an
    operator approves (without `approved_by`, a user name, the one who asks); without `starts_at` it
    begins now.
    """

    kind: SilenceKind = "silence"
    matchers: list[MatcherRow]
    starts_at: AwareDatetime | None = None
    ends_at: AwareDatetime
    schedule: HoursRow | None = None
    reason: Annotated[NameGiven, Field(max_length=silences.MAX_REASON)]
    approved_by: Annotated[NameGiven, Field(max_length=150)] = ""


@router.get("/silences", operation_id="listSilences", response=SilencePage)
def list_silences(
    request: HttpRequest, paging: Paging, state: SilenceState | None = None
) -> Answer:
    """Those in a state; without one all that are not expired. Who does not see everything has those
    that he may end.
    """
    user: User = getattr(request, "auth")  # noqa: B009 - Ninja's name for who asks
    now = timezone.now()
    chosen = Silence.objects.filter(_in(state, now)).select_related("by", "approved_by")
    rows = silences.seen_by(user, chosen.order_by("-starts_at", "-pk"), now=now)
    show_people(rows, *PEOPLE)
    return asked(request).listed(rows, paging.limit, lambda row: silence_row(row, now))


@router.post(
    "/silences",
    operation_id="addSilence",
    response=SilenceRow,
    auth=[WriteToken(), django_auth],
)
def add_silence(request: HttpRequest, wanted: Body[SilenceWanted]) -> Joined:
    """A new one: for operators, and for leads about their teams alone."""
    user: User = getattr(request, "auth")  # noqa: B009 - Ninja's name for who asks
    now = timezone.now()
    given = wanted.dict()
    terms = silences.SilenceTerms(
        kind=wanted.kind,
        matchers=matchers_of(given["matchers"]),
        starts_at=wanted.starts_at or now,
        ends_at=wanted.ends_at,
        reason=wanted.reason,
        hours=hours_of(given["schedule"]),
        approved_by=_approver(wanted.approved_by),
    )
    return silence_row(silences.add_silence(terms, by=user, now=now), now)


@router.delete(
    "/silences/{int:number}",
    operation_id="endSilence",
    response=SilenceRow,
    auth=[WriteToken(), django_auth],
)
def end_silence(request: HttpRequest, number: int) -> Joined:
    """It holds no longer: for whoever set it, or may set it."""
    user: User = getattr(request, "auth")  # noqa: B009 - Ninja's name for who asks
    now = timezone.now()
    rows = Silence.objects.select_related("by", "approved_by")
    seen = silences.seen_by(user, rows.filter(pk=number), now=now)
    silence = required(next(iter(seen), None), "silence", field="number")
    silences.end_silence(number, by=user, now=now)
    show_people([silence], *PEOPLE)
    silence.ends_at = min(silence.ends_at, now)
    return silence_row(silence, now)


def _approver(name: str) -> User | None:
    if not name:
        return None
    user = known(User.objects.filter(username=name, is_active=True)).first()
    if user is None:
        raise RequestError(f"there is no active user {name!r}", field="approved_by")
    return user


def _in(state: str | None, now: datetime) -> Q:
    states = {
        None: Q(ends_at__gt=now),
        ACTIVE: Q(starts_at__lte=now, ends_at__gt=now),
        PENDING: Q(starts_at__gt=now),
        EXPIRED: Q(ends_at__lte=now),
    }
    return states[state]


def silence_row(silence: Silence, now: datetime) -> Joined:
    return Joined(
        silence,
        state=state_of(silence, now),
        matchers=matchers.stored(silence.matchers),
        schedule=weekly_hours.stored(silence.weekly),
    )


def state_of(silence: Silence, now: datetime) -> str:
    """One of SilenceState."""
    if silence.ends_at <= now:
        return EXPIRED
    return PENDING if silence.starts_at > now else ACTIVE
