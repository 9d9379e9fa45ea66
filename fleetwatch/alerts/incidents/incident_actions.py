"""What people do about incidents: an entry of each in its history and in the audit log.

For operators, whose it is, whom it was given to, and who leads the team that pays for it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from glob import escape

from django.core.exceptions import PermissionDenied
from django.db import transaction

from fleetwatch.accounts.audit import record
from fleetwatch.accounts.models import User
from fleetwatch.accounts.people import teams_of
from fleetwatch.accounts.permissions import Right, may, role_of
from fleetwatch.accounts.selectors import zone as organisation_zone
from fleetwatch.alerts import matchers
from fleetwatch.alerts.incidents.muting import held_back, moment
from fleetwatch.alerts.incidents.open_names import BEFORE_REASON, BY, PERSON, in_words
from fleetwatch.alerts.incidents.owners import may_see
from fleetwatch.alerts.matchers import Matcher
from fleetwatch.alerts.models import Incident, IncidentEvent, Silence
from fleetwatch.diagnosis.findings.deciding import LONGEST_SNOOZE, check_reach
from fleetwatch.lib.actor import MAIL, actor
from fleetwatch.lib.refusal import RefusedFieldError, check_end, check_text
from fleetwatch.notify.message import one_line

USUAL_SNOOZE = timedelta(hours=4)  # what the button says
USUAL_JUSTIFICATION = timedelta(days=7)  # of a click, which names no day
LONGEST_JUSTIFICATION = timedelta(days=30)
MAX_REASON = 300
NOT_YOURS = "it is for whose it is, who leads the team, whom it was given to, and operators"
State = Incident.State
Verdict = Incident.Verdict


@dataclass(frozen=True, slots=True)
class Action:
    """What somebody wants: `kind` is one of KINDS. `until` ends a snooze or a justification, None
    is as long as usual; `assignee` None takes an assignment back.
    """

    kind: str
    reason: str = ""
    until: datetime | None = None
    assignee: User | None = None


def actable(user: User, incidents: Collection[Incident], *, now: datetime) -> set[int]:
    """The ids of those that this person may act on."""
    if may(user, Right.FLEET):
        return {incident.pk for incident in incidents}
    if not user.is_active:
        return set()
    own = {
        incident.pk
        for incident in incidents
        if user.pk in (incident.person_id, incident.assignee_id)
    }
    if role_of(user) != User.Role.LEAD:
        return own
    led = {team.pk for team in teams_of(user, now)}
    return own | {incident.pk for incident in incidents if incident.team_id in led}


@transaction.atomic
def act(incident_id: int, action: Action, *, by: User, now: datetime) -> Incident:
    """The incident afterwards. What was done before and changes nothing is not written down again.

    Raises RefusedFieldError, PermissionDenied where it is not this person's, and
    Incident.DoesNotExist.
    """
    _check(action, now)
    incident = (
        Incident.objects.select_for_update(of=("self",)).select_related("rule").get(pk=incident_id)
    )
    _check_right(incident, action, by, now)
    text = KINDS[action.kind](incident, action, by, now)
    if text:
        incident.updated_at = now
        incident.save()
        _write_down(incident, action, text, by=by, now=now)
    return incident


def _write_down(incident: Incident, action: Action, text: str, *, by: User, now: datetime) -> None:
    IncidentEvent.objects.create(
        incident=incident,
        at=now,
        kind=action.kind,
        text=one_line(text, 400),
        by=by,
        person=action.assignee,
    )
    sentence = in_words(text, by=by, person=action.assignee)
    record(f"incident.{action.kind}", str(incident.pk), text=sentence)


@transaction.atomic
def act_on_all(
    incidents: Iterable[Incident], action: Action, *, by: User, now: datetime
) -> list[Incident]:
    """All of them afterwards, or none: what a click on the message of a group means.

    Raises what act() does.
    """
    ids = sorted(incident.pk for incident in incidents)
    return [act(pk, action, by=by, now=now) for pk in ids]


def _acknowledge(incident: Incident, action: Action, by: User, now: datetime) -> str:
    _check_fires(incident)
    if incident.state == State.ACKNOWLEDGED:
        return ""
    incident.state = State.ACKNOWLEDGED
    incident.acknowledged_at = now
    incident.acknowledged_by = by
    return _said("acknowledged", action)


def _snooze(incident: Incident, action: Action, by: User, now: datetime) -> str:
    _check_fires(incident)
    incident.snoozed_until = action.until or now + USUAL_SNOOZE
    until = moment(incident.snoozed_until, organisation_zone())
    incident.muted = f"snoozed until {until}"
    return _said(f"snoozed until {until}", action)


def _unsnooze(incident: Incident, action: Action, by: User, now: datetime) -> str:
    """Whether another reason mutes it is seen with the next evaluation (muted_incidents.py)."""
    if incident.snoozed_until is None or incident.snoozed_until <= now:
        return ""
    incident.snoozed_until = None
    return _said("snooze taken back", action)


def _resolve(incident: Incident, action: Action, by: User, now: datetime) -> str:
    _check_fires(incident)
    text = _said("resolved", action)
    _end(incident, text, by, now)
    return text


def _assign(incident: Incident, action: Action, by: User, now: datetime) -> str:
    if incident.assignee == action.assignee:
        return ""
    if action.assignee is not None and not may_see(action.assignee, incident):
        name = action.assignee.get_username()
        raise RefusedFieldError(f"{name} may not see this incident", field="assignee")
    incident.assignee = action.assignee
    return _said(f"given to {PERSON if action.assignee else 'nobody'}", action)


def _not_waste(incident: Incident, action: Action, by: User, now: datetime) -> str:
    """Nobody is told of it, as far as this rule goes, until that day: pages say so at once."""
    until = action.until or now + USUAL_JUSTIFICATION
    end = moment(until, organisation_zone())
    # names are not patterns: a job called * is one job
    meant = (
        Matcher("rule", (escape(incident.rule.name),)),
        Matcher("subject", (escape(incident.subject),)),
    )
    kind = Silence.Kind.JUSTIFICATION
    Silence.objects.create(
        kind=kind,
        matchers=matchers.checked(meant),
        starts_at=now,
        ends_at=until,
        reason=one_line(action.reason, MAX_REASON),
        by=by,
        created_at=now,
    )
    incident.verdict = Verdict.REJECTED
    if incident.resolved_at is None:
        incident.muted = held_back(kind, end, action.reason)
    return _said(f"agreed as not waste, until {end}", action)


def _fixed(incident: Incident, action: Action, by: User, now: datetime) -> str:
    if incident.verdict == Verdict.CONFIRMED and incident.resolved_at is not None:
        return ""
    _check_fired(incident)
    incident.verdict = Verdict.CONFIRMED
    text = _said("fixed", action)
    if incident.resolved_at is None:
        _end(incident, text, by, now)
    return text


KINDS: Mapping[str, Callable[[Incident, Action, User, datetime], str]] = {
    "ack": _acknowledge,
    "snooze": _snooze,
    "unsnooze": _unsnooze,
    "resolve": _resolve,
    "assign": _assign,
    "not_waste": _not_waste,
    "fixed": _fixed,
}


def _end(incident: Incident, resolution: str, by: User, now: datetime) -> None:
    """By hand: nobody hears of it any more; its breach is over when it is (`ended_ms`)."""
    incident.state = State.RESOLVED
    incident.resolved_at = now
    incident.resolved_by = by
    incident.resolution = one_line(resolution, 200)
    incident.snoozed_until = None
    incident.muted = ""


def _check(action: Action, now: datetime) -> None:
    if action.kind not in KINDS:
        raise RefusedFieldError(
            f"{action.kind!r} is no action; there is {', '.join(KINDS)}", field="action"
        )
    check_text(action.reason, longest=MAX_REASON, field="reason")
    if action.kind == "not_waste" and not action.reason.strip():
        raise RefusedFieldError("why is it no waste? A reason is needed", field="reason")
    longest = LONGEST_JUSTIFICATION if action.kind == "not_waste" else LONGEST_SNOOZE
    if action.until is not None:
        check_end(action.until, now, longest=longest)


def _check_right(incident: Incident, action: Action, by: User, now: datetime) -> None:
    if may(by, Right.FLEET):
        return
    if incident.pk not in actable(by, [incident], now=now):
        raise PermissionDenied(NOT_YOURS)
    check_reach(by, now, until=action.until, assignee=action.assignee)


def _check_fires(incident: Incident) -> None:
    if incident.resolved_at is not None:
        raise RefusedFieldError("it is over already", field="action")
    _check_fired(incident)


def _check_fired(incident: Incident) -> None:
    if incident.state == State.PENDING:
        raise RefusedFieldError("it has not fired yet", field="action")


def _said(what: str, action: Action) -> str:
    """What was done by whom, its name left open, and why."""
    way = " by a link in mail" if actor().via == MAIL else ""
    reason = one_line(action.reason, MAX_REASON)
    text = f"{what} by {BY}{way}"
    return f"{text}{BEFORE_REASON}{reason}" if reason else text
