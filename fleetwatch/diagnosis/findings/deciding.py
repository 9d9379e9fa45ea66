"""What people decide about findings, and what they say of them: a row of Said each, and the
finding's status.

Deciding (accept, dismiss, snooze, assign, fixed, reopen) is for admins; everybody who is logged in
may say whether a diagnosis is right (confirm, reject): the person who knows the job rarely
administers the fleet.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from fleetwatch.accounts.models import User
from fleetwatch.accounts.permissions import can_administer
from fleetwatch.diagnosis.models import Finding, Said

LONGEST_SNOOZE = timedelta(days=92)
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
_STATUS = {
    "accept": Finding.Status.ACCEPTED,
    "dismiss": Finding.Status.DISMISSED,
    "snooze": Finding.Status.SNOOZED,
    "fixed": Finding.Status.FIXED,
    "reopen": Finding.Status.OPEN,
}


class DecisionError(ValueError):
    """A decision that can't be taken; `field` is what to change."""

    def __init__(self, message: str, *, field: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, slots=True)
class Decision:
    """What somebody wants: `until` ends a snooze, `assignee` None takes an assignment back."""

    action: str
    note: str = ""
    until: datetime | None = None
    assignee: User | None = None


def may_decide(user: User, action: str) -> bool:
    """Whether this person may do that."""
    return action in SAYS or can_administer(user)


@transaction.atomic
def decide(finding_id: int, decision: Decision, *, by: User, now: datetime) -> Finding:
    """The finding after the decision, which is written down. The same decision twice is written
    twice and changes nothing: a fix that is told again, from a page that was open since, still
    began when it was told first. A snooze ends when the last says.

    Raises DecisionError, and Finding.DoesNotExist.
    """
    _check(decision, now)
    finding = (
        Finding.objects.select_for_update(of=("self",))
        .select_related("job", "node")
        .get(pk=finding_id)
    )
    Said.objects.create(
        finding=finding, kind=KINDS[decision.action], by=by, at=now, note=_note(decision)
    )
    if decision.action == "assign":
        finding.assignee = decision.assignee
        finding.save(update_fields=["assignee"])
    is_told_again = decision.action == "fixed" and finding.status == Finding.Status.FIXED
    if decision.action in _STATUS and not is_told_again:
        finding.status = _STATUS[decision.action]
        finding.snoozed_until = decision.until if decision.action == "snooze" else None
        finding.decided_at = now
        finding.save(update_fields=["status", "snoozed_until", "decided_at"])
    return finding


def _check(decision: Decision, now: datetime) -> None:
    if decision.action not in KINDS:
        raise DecisionError(
            f"{decision.action!r} is no decision; there is {', '.join(KINDS)}", field="action"
        )
    if len(decision.note) > MAX_NOTE:
        raise DecisionError(f"at most {MAX_NOTE} characters, please", field="note")
    if "\x00" in decision.note:
        raise DecisionError("text can't hold the character 0", field="note")
    if decision.action in NEEDS_REASON and not decision.note.strip():
        raise DecisionError(
            "why? A reason helps who sees this next, and the detector: it is needed to"
            f" {decision.action}",
            field="note",
        )
    if decision.action == "snooze" and (
        decision.until is None or not now < decision.until <= now + LONGEST_SNOOZE
    ):
        raise DecisionError(
            f"a snooze ends: name a moment within the next {LONGEST_SNOOZE.days} days",
            field="until",
        )


def _note(decision: Decision) -> str:
    """What was written; of an assignment also to whom."""
    if decision.action != "assign":
        return decision.note.strip()
    to = f"to {decision.assignee.get_username()}" if decision.assignee else "to nobody"
    return f"{to}: {decision.note.strip()}"[:MAX_NOTE] if decision.note.strip() else to


def candidates(finding: Finding | None = None) -> QuerySet[User]:
    """Active users by name, and with them who still has that finding (None: any finding) though
    deactivated since.
    """
    given = Finding.objects.filter(assignee=OuterRef("pk"))
    theirs = given if finding is None else given.filter(pk=finding.pk)
    return User.objects.filter(Q(is_active=True) | Exists(theirs)).order_by("username")


def assignee(name: str) -> User | None:
    """The active user of that name; "" is nobody.

    Raises DecisionError for a name that nobody has (any more).
    """
    if not name:
        return None
    user = User.objects.filter(username=name.replace("\x00", ""), is_active=True).first()
    if user is None:
        raise DecisionError(f"there is no active user {name!r}", field="assignee")
    return user
