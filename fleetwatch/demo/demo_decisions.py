"""What people of a demo hub decided about open findings, besides those that are fixed
(demo_fixes.py): each about the dearest of a cause that is theirs to decide about.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from fleetwatch.accounts.models import User
from fleetwatch.accounts.permissions import Right, may
from fleetwatch.demo.cast import acting_as
from fleetwatch.diagnosis.findings.deciding import Decision, decidable, decide
from fleetwatch.diagnosis.findings.inbox import inbox
from fleetwatch.diagnosis.findings.ranked_findings import Line
from fleetwatch.diagnosis.models import Finding, Said
from fleetwatch.lib.intervals import Interval, from_ms

LOOKED_AT = 200  # of the dearest open findings
WEEK = timedelta(days=7)
LOOKED_AT_AFTER = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Plan:
    """Who decides what about a finding of that cause; `days` is how long a snooze lasts."""

    who: str
    cause: str
    action: str
    note: str
    days: int = 0


PLANS = (
    Plan("priya", "data_starved", "accept", "decoding moves to the GPU with the next release"),
    Plan("amara", "checkpoint_stall", "accept", "asynchronous checkpoints, being tried on one run"),
    Plan(
        "otto", "partial_idle", "dismiss", "the other GPUs are its hot spare, agreed with its owner"
    ),
    Plan("otto", "idle_held", "confirm", "left open over night, the owner says"),
    Plan("otto", "small_batch", "snooze", "the paper’s deadline first", days=7),
)


def decide_some(now: datetime) -> int:
    """How many decisions were taken. None where anybody said anything but that a finding is fixed:
    then visitors decide.
    """
    if Said.objects.exclude(kind=Said.Kind.FIXED).exists():
        return 0
    still_open = inbox(Interval(now - WEEK, now), now=now).of_jobs.of_status("open")
    lines = [] if not len(still_open) else still_open[:LOOKED_AT]
    people = {user.username: user for user in User.objects.filter(is_active=True)}
    return sum(
        _decide(plan, lines, people[plan.who], now=now) for plan in PLANS if plan.who in people
    )


def _decide(plan: Plan, lines: Sequence[Line], user: User, *, now: datetime) -> int:
    """1 where there is such a finding, else 0."""
    alike = [line.finding for line in lines if line.finding.cause == plan.cause]
    theirs = decidable(user, alike, now=now)
    finding = next((each for each in alike if each.pk in theirs), None)
    if finding is None:
        return 0
    until = now + timedelta(days=plan.days) if plan.days else None
    at = _looked_at(finding, user, now)
    with acting_as(user, at):
        decide(finding.pk, Decision(plan.action, note=plan.note, until=until), by=user, now=at)
    return 1


def _looked_at(finding: Finding, user: User, now: datetime) -> datetime:
    """An hour after it was seen last; of who is in a team since the demo began, now."""
    if not may(user, Right.FLEET):
        return now
    return min(from_ms(finding.last_ms) + LOOKED_AT_AFTER, now)
