"""Silences, maintenance windows and exemptions: set by operators, and by leads for their teams. An
owner's reason is given on the incident (incident_actions.py), and ended here.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from glob import escape

import msgspec
from django.core.exceptions import PermissionDenied
from django.db import transaction

from fleetwatch.accounts.audit import record
from fleetwatch.accounts.models import User
from fleetwatch.accounts.people import teams_of
from fleetwatch.accounts.permissions import Right, may, role_of
from fleetwatch.accounts.visibility import sight
from fleetwatch.alerts import matchers, weekly_hours
from fleetwatch.alerts.matchers import Matcher
from fleetwatch.alerts.models import Silence
from fleetwatch.alerts.weekly_hours import Hours
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.notify.message import one_line

LONGEST = timedelta(days=366)
MAX_REASON = 300
Kind = Silence.Kind
# what a lead may set for the own team
OF_LEADS = (Kind.SILENCE, Kind.MAINTENANCE)
NOT_YOURS = "silences are the operators', and the leads' for their teams: name the team in it"


@dataclass(frozen=True, slots=True, kw_only=True)
class SilenceTerms:
    """What is to be muted, over [starts_at, ends_at), in these hours of a week (None: always), and
    why. `approved_by`: of an exemption who allowed it, an operator.
    """

    kind: str
    matchers: tuple[Matcher, ...]
    starts_at: datetime
    ends_at: datetime
    reason: str
    hours: Hours | None = None
    approved_by: User | None = None


@transaction.atomic
def add_silence(terms: SilenceTerms, *, by: User, now: datetime) -> Silence:
    """The new one. Raises RefusedFieldError, and PermissionDenied for whose it is not to set."""
    _check(terms, now)
    if not _may_set(by, terms.kind, terms.matchers, now):
        raise PermissionDenied(NOT_YOURS)
    silence = Silence.objects.create(
        kind=terms.kind,
        matchers=matchers.checked(terms.matchers),
        starts_at=terms.starts_at,
        ends_at=terms.ends_at,
        weekly=msgspec.to_builtins(terms.hours) if terms.hours else {},
        reason=one_line(terms.reason, MAX_REASON),
        by=by,
        approved_by=_approver(terms, by),
        created_at=now,
        is_of_teams_alone=not may(by, Right.FLEET),
    )
    record(
        "silence.add",
        in_words(silence),
        kind=silence.kind,
        ends_at=silence.ends_at.isoformat(),
        reason=silence.reason,
    )
    return silence


@transaction.atomic
def end_silence(silence_id: int, *, by: User, now: datetime) -> None:
    """It holds no longer; one that has not begun is gone, one that is over stays as it was.

    Raises PermissionDenied for whose it is not to end, and Silence.DoesNotExist.
    """
    silence = Silence.objects.select_for_update().get(pk=silence_id)
    if silence.pk not in endable(by, [silence], now=now):
        raise PermissionDenied(NOT_YOURS)
    if silence.ends_at <= now:
        return
    record("silence.end", in_words(silence), kind=silence.kind)
    if silence.starts_at >= now:
        silence.delete()
        return
    silence.ends_at = now
    silence.save(update_fields=["ends_at"])


def endable(user: User, silences: Collection[Silence], *, now: datetime) -> set[int]:
    """The ids of those that the user may end: what he may set, and what he set himself."""
    return {
        silence.pk
        for silence in silences
        if (user.is_active and silence.by_id == user.pk)
        or _may_set(user, silence.kind, matchers.stored(silence.matchers), now)
    }


def seen_by(user: User, silences: Iterable[Silence], *, now: datetime) -> list[Silence]:
    """Those that the user sees; who does not see everything sees those that he may end."""
    rows = list(silences)
    if sight() is None:
        return rows
    own = endable(user, rows, now=now)
    return [silence for silence in rows if silence.pk in own]


def of_node(name: str, now: datetime) -> list[Silence]:
    """Those that hold or will and name the node, the first to end first."""
    rows = Silence.objects.select_related("by").filter(ends_at__gt=now).order_by("ends_at")
    return [silence for silence in rows if _names_node(silence, name)]


def _names_node(silence: Silence, name: str) -> bool:
    own = [each for each in matchers.stored(silence.matchers) if each.label == "node"]
    is_named = any(not each.is_not for each in own)
    return is_named and matchers.matched(own, {"node": (name,)})


def in_words(silence: Silence) -> str:
    """What it mutes: "Node is gpu-01 and Team is nlp"."""
    return " and ".join(matcher.text for matcher in matchers.stored(silence.matchers))


def _check(terms: SilenceTerms, now: datetime) -> None:
    if terms.kind not in Kind.values or terms.kind == Kind.JUSTIFICATION:
        raise RefusedFieldError(
            "it is a silence, a maintenance window or an exemption", field="kind"
        )
    if not terms.matchers:
        raise RefusedFieldError("what does it mute? Name one thing at least", field="matchers")
    if not terms.reason.strip() or len(terms.reason) > MAX_REASON or "\x00" in terms.reason:
        raise RefusedFieldError(f"why? 1 to {MAX_REASON} characters", field="reason")
    _check_time(terms, now)
    weekly_hours.check(terms.hours)


def _check_time(terms: SilenceTerms, now: datetime) -> None:
    if terms.ends_at <= max(terms.starts_at, now):
        raise RefusedFieldError("it ends after it begins, and after now", field="ends_at")
    if terms.ends_at - terms.starts_at > LONGEST:
        raise RefusedFieldError(f"it ends within {LONGEST.days} days", field="ends_at")


def _may_set(user: User, kind: str, meant: Collection[Matcher], now: datetime) -> bool:
    if may(user, Right.FLEET):
        return True
    if not user.is_active or role_of(user) != User.Role.LEAD or kind not in OF_LEADS:
        return False
    slugs = {team.slug for team in teams_of(user, now)}
    return any(_is_of_teams(matcher, slugs) for matcher in meant)


def _is_of_teams(matcher: Matcher, slugs: Collection[str]) -> bool:
    """Whether it names nothing but these teams: a pattern could name others. What another team has
    a part in too is not muted by it (Silence.is_of_teams_alone).
    """
    is_plain = all(value in slugs and escape(value) == value for value in matcher.values)
    return matcher.label == "team" and not matcher.is_not and is_plain


def _approver(terms: SilenceTerms, by: User) -> User | None:
    if terms.kind != Kind.EXEMPTION:
        return None
    approver = terms.approved_by or by
    if not may(approver, Right.FLEET):
        raise RefusedFieldError("an operator approves of what is no waste", field="approved_by")
    return approver
