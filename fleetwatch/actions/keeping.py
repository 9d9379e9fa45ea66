"""Keeping a job that is about to be ended: by the link of its warning, without a log-in, or on the
incident's page. It holds for this run of the job.
"""

from datetime import datetime

from django.conf import settings
from django.core import signing
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.urls import reverse

from fleetwatch.accounts.audit import record
from fleetwatch.accounts.models import User
from fleetwatch.actions.ladder_locks import locked_ladder
from fleetwatch.actions.models import Action
from fleetwatch.actions.recalling import recall
from fleetwatch.alerts.incidents.incident_actions import NOT_YOURS, actable
from fleetwatch.alerts.incidents.open_names import BEFORE_REASON, PERSON
from fleetwatch.alerts.services import add_event
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.notify.message import one_line

SALT = "actions.keeping"
MAX_REASON = 200
OVER = "it is over: nothing is going to be done, or it was done"
REHEARSED = "it is a dry run: nothing is going to be done"
State = Action.State
KEEPABLE = (State.WARNED, State.WARNED_AGAIN, State.ORDERED)


def keep_url(action: Action, user: User) -> str:
    """The address by which this person keeps the job; it does not expire."""
    token = signing.dumps([action.pk, user.pk], salt=SALT)
    return f"{settings.PUBLIC_URL}{reverse('keep_job', args=[token])}"


def read_keep_token(token: str) -> tuple[Action, User] | None:
    """What the link keeps, and whose it is; None where it is none of ours, or nobody's any more. An
    older warning's keeps what goes on about the same run of the job now.
    """
    try:
        action_id, user_id = signing.loads(token, salt=SALT)
    except signing.BadSignature:
        return None
    action = Action.objects.filter(pk=action_id).select_related("incident").first()
    user = User.objects.filter(pk=user_id, is_active=True).first()
    return None if action is None or user is None else (_newest(action, user), user)


def _newest(action: Action, user: User) -> Action:
    """The same where it can be kept still, or where nothing else can be."""
    if action.state in KEEPABLE:
        return action
    others = Action.objects.filter(
        person=user, subject=action.subject, restarts=action.restarts, is_dry_run=False
    )
    open_ones = others.filter(state__in=KEEPABLE).select_related("incident")
    return open_ones.order_by("-pk").first() or action


@transaction.atomic
def keep(action_id: int, *, by: User, reason: str, now: datetime) -> Action:
    """The ladder, ended: nothing is done about this run of the job. What was asked for is taken
    back, which may be too late (order_answers.py). Twice is once.

    Raises RefusedFieldError where it is over, PermissionDenied for whose it is not to keep, and
    Action.DoesNotExist.
    """
    action = locked_ladder(action_id)
    _check_right(action, by, now)
    if action.state == State.KEPT:
        return action
    _check_open(action, reason)
    recall(action, now)
    why = one_line(reason, MAX_REASON)
    action.state = State.KEPT
    action.result = why
    action.kept_by = by
    action.ended_at = now
    action.save(update_fields=["state", "result", "kept_by", "ended_at"])
    if action.incident is not None:
        text = f"kept by {PERSON}{BEFORE_REASON}{why}" if why else f"kept by {PERSON}"
        add_event(action.incident, "action", text, at=now, person=by)
    record("action.keep", action.subject, ladder=action.pk, reason=why)
    return action


def may_keep(action: Action, user: User, now: datetime) -> bool:
    """Whether the user may: who was warned, and whoever may act on the incident."""
    if user.is_active and action.person_id == user.pk:
        return True
    return action.incident is not None and bool(actable(user, [action.incident], now=now))


def _check_open(action: Action, reason: str) -> None:
    """Raises RefusedFieldError."""
    if action.is_dry_run:
        raise RefusedFieldError(REHEARSED)
    if action.state not in KEEPABLE:
        raise RefusedFieldError(OVER)
    if "\x00" in reason or len(reason) > MAX_REASON:
        raise RefusedFieldError(f"at most {MAX_REASON} characters of text", field="reason")


def _check_right(action: Action, by: User, now: datetime) -> None:
    if not may_keep(action, by, now):
        raise PermissionDenied(NOT_YOURS)
