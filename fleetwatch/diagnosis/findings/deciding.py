"""What people decide about findings, and what they say of them: a row of Said each, and the
finding's status.

Deciding (accept, dismiss, snooze, assign, fixed, reopen) is for operators, for whose the job is or
whom the finding was given to, and for who leads the job's team; everybody who is logged in may say
whether a diagnosis is right (confirm, reject).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from fleetwatch.accounts.audit import record
from fleetwatch.accounts.colleagues import reachable
from fleetwatch.accounts.models import User
from fleetwatch.accounts.names.holders import Holder, people
from fleetwatch.accounts.people import members, teams_of
from fleetwatch.accounts.permissions import Right, may, role_of
from fleetwatch.costs.mapping.attribution import into_teams
from fleetwatch.diagnosis.models import Finding, Said
from fleetwatch.jobs.models import Job
from fleetwatch.lib.refusal import RefusedFieldError, check_end, check_text

LONGEST_SNOOZE = timedelta(days=92)
LONGEST_OWN_SNOOZE = timedelta(days=30)  # of who does not run the fleet
MAX_NOTE = 500

# What is asked for -> what it is called once it is done.
KINDS = {
    "accept": Said.Kind.ACCEPTED,
    "dismiss": Said.Kind.DISMISSED,
    "snooze": Said.Kind.SNOOZED,
    "assign": Said.Kind.ASSIGNED,
    "fixed": Said.Kind.FIXED,
    "reopen": Said.Kind.REOPENED,
    "confirm": Said.Kind.CONFIRMED,
    "reject": Said.Kind.REJECTED,
}
SAYS = ("confirm", "reject")
NEEDS_REASON = ("dismiss", "reject")
NOT_YOURS = "it is for whose job it is, who leads the team, whom it was given to, and operators"
ASSIGNED_TO = "to "  # begins the note of an assignment, before the user's name
NOBODY = "nobody"
_STATUS = {
    "accept": Finding.Status.ACCEPTED,
    "dismiss": Finding.Status.DISMISSED,
    "snooze": Finding.Status.SNOOZED,
    "fixed": Finding.Status.FIXED,
    "reopen": Finding.Status.OPEN,
}


@dataclass(frozen=True, slots=True)
class Decision:
    """What somebody wants: `until` ends a snooze, `assignee` None takes an assignment back."""

    action: str
    note: str = ""
    until: datetime | None = None
    assignee: User | None = None


def decidable(user: User, findings: Collection[Finding], *, now: datetime) -> set[int]:
    """The ids of those that this person may decide about; their jobs are loaded."""
    if may(user, Right.FLEET):
        return {finding.pk for finding in findings}
    given = {finding.pk for finding in findings if finding.assignee_id == user.pk}
    jobs = {
        finding.pk: finding.job
        for finding in findings
        if finding.job is not None and not finding.job.has_pseudonym
    }
    return given | own(user, jobs) | _led(user, jobs, now)


def own(user: User, jobs: Mapping[int, Job]) -> set[int]:
    """The keys of those of these jobs that the user runs."""
    holders = {pk: Holder(job.scheduler, job.cluster, job.user) for pk, job in jobs.items()}
    owners = people(holders.values())
    return {pk for pk, holder in holders.items() if owners.get(holder) == user}


def _led(user: User, jobs: Mapping[int, Job], now: datetime) -> set[int]:
    """Of jobs whose time is now a team's that the user leads."""
    if role_of(user) != User.Role.LEAD:
        return set()
    teams = teams_of(user, now)
    into_teams(jobs.values(), before=now)
    return {pk for pk, job in jobs.items() if job.team in teams}


@transaction.atomic
def decide(finding_id: int, decision: Decision, *, by: User, now: datetime) -> Finding:
    """The finding after the decision, which is written down. The same decision twice is written
    twice and changes nothing: a fix that is told again, from a page that was open since, still
    began when it was told first. A snooze ends when the last says.

    Raises RefusedFieldError, PermissionDenied where the finding is not this person's to decide
    about, and Finding.DoesNotExist.
    """
    _check(decision, now)
    finding = (
        Finding.objects.select_for_update(of=("self",))
        .select_related("job", "node")
        .get(pk=finding_id)
    )
    _check_right(finding, decision, by, now)
    Said.objects.create(
        finding=finding, kind=KINDS[decision.action], by=by, at=now, note=_note(decision)
    )
    record(f"finding.{decision.action}", str(finding.pk), note=_note(decision))
    if decision.action == "assign":
        finding.assignee = decision.assignee
        finding.save(update_fields=["assignee"])
    is_told_again = decision.action == "fixed" and finding.status == Finding.Status.FIXED
    if decision.action in _STATUS and not is_told_again:
        _set_status(finding, decision, now)
    return finding


def _set_status(finding: Finding, decision: Decision, now: datetime) -> None:
    finding.status = _STATUS[decision.action]
    finding.snoozed_until = decision.until if decision.action == "snooze" else None
    finding.decided_at = now
    finding.save(update_fields=["status", "snoozed_until", "decided_at"])


def _check(decision: Decision, now: datetime) -> None:
    if decision.action not in KINDS:
        raise RefusedFieldError(
            f"{decision.action!r} is no decision; there is {', '.join(KINDS)}", field="action"
        )
    check_text(decision.note, longest=MAX_NOTE, field="note")
    if decision.action in NEEDS_REASON and not decision.note.strip():
        raise RefusedFieldError(
            "why? A reason helps who sees this next, and the detector: it is needed to"
            f" {decision.action}",
            field="note",
        )
    if decision.action == "snooze":
        check_end(decision.until or now, now, longest=LONGEST_SNOOZE)


def _check_right(finding: Finding, decision: Decision, by: User, now: datetime) -> None:
    if decision.action in SAYS or may(by, Right.FLEET):
        return
    if finding.pk not in decidable(by, [finding], now=now):
        raise PermissionDenied(NOT_YOURS)
    check_reach(by, now, until=decision.until, assignee=decision.assignee)


def check_reach(
    user: User, now: datetime, *, until: datetime | None, assignee: User | None
) -> None:
    """Who does not run the fleet puts things off for LONGEST_OWN_SNOOZE at most, and gives them to
    colleagues alone. Raises RefusedFieldError.
    """
    if until is not None and until > now + LONGEST_OWN_SNOOZE:
        raise RefusedFieldError(f"at most {LONGEST_OWN_SNOOZE.days} days, please", field="until")
    if assignee is not None and assignee not in colleagues(user, now):
        raise RefusedFieldError(
            f"{assignee.get_username()} is in no team of yours", field="assignee"
        )


def _note(decision: Decision) -> str:
    """What was written; of an assignment also to whom."""
    if decision.action != "assign":
        return decision.note.strip()
    name = decision.assignee.get_username() if decision.assignee else NOBODY
    to = f"{ASSIGNED_TO}{name}"
    return f"{to}: {decision.note.strip()}"[:MAX_NOTE] if decision.note.strip() else to


def candidates(finding: Finding | None = None) -> QuerySet[User]:
    """Active users by name, and with them who still has that finding (None: any finding) though
    deactivated since.
    """
    given = Finding.objects.filter(assignee=OuterRef("pk"))
    theirs = given if finding is None else given.filter(pk=finding.pk)
    return User.objects.filter(Q(is_active=True) | Exists(theirs)).order_by("username")


def colleagues(user: User, now: datetime) -> QuerySet[User]:
    """The user and who is in a team with him now, by name."""
    return (
        User.objects.filter(Q(pk=user.pk) | Q(pk__in=members(teams_of(user, now), now)))
        .filter(is_active=True)
        .order_by("username")
    )


def assignable(user: User, now: datetime, finding: Finding | None = None) -> QuerySet[User]:
    """Whom the user may give findings, or this one, to: anybody, or colleagues."""
    return candidates(finding) if may(user, Right.FLEET) else colleagues(user, now)


def assignee(name: str) -> User | None:
    """The active user of that name; "" is nobody. Who does not see everything finds colleagues.

    Raises RefusedFieldError for a name that nobody has (any more).
    """
    if not name:
        return None
    users = User.objects.filter(username=name.replace("\x00", ""), is_active=True)
    user = reachable(users).first()
    if user is None:
        raise RefusedFieldError(f"there is no active user {name!r}", field="assignee")
    return user
