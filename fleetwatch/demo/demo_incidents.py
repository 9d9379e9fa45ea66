"""What had fired on a demo hub before its first start, and what its people did about some of it.

By the product's own ways: rules are evaluated and their messages sent as of moments of the past.
Only rules that judge telemetry as it was: what others say of a moment depends on what came later.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import QuerySet

from fleetwatch.accounts.models import User
from fleetwatch.accounts.permissions import Right, may
from fleetwatch.alerts.breach import Watch
from fleetwatch.alerts.conditions import condition
from fleetwatch.alerts.episodes import Episode, episodes
from fleetwatch.alerts.incidents.incident_actions import Action, act, actable
from fleetwatch.alerts.messaging.announcing import announce
from fleetwatch.alerts.models import Incident, IncidentEvent, Rule
from fleetwatch.alerts.services import evaluate_rule, settings_of
from fleetwatch.demo.cast import acting_as
from fleetwatch.lib.intervals import Interval, from_ms, to_ms
from fleetwatch.lib.sql import has_lock
from fleetwatch.notify.delivering import deliver_due

PAST_RULES = ("job_idle", "gpu_idle", "gpu_fault", "gpu_memory_errors")
IDLE_RULES = ("job_idle", "gpu_idle")
CLEAR_MINUTES = 15
LOOKS_BACK = timedelta(hours=9)
EVERY = timedelta(minutes=45)  # a look and its messages take a quarter of a second
MESSAGES = 100  # of a moment
LOOKED_AT_AFTER = timedelta(minutes=12)
State = Incident.State


@dataclass(frozen=True, slots=True)
class Plan:
    """Who does what about an incident of that rule: one that goes on, or one that is over."""

    who: str
    rule: str
    action: str
    reason: str
    is_over: bool = False
    lasts: timedelta | None = None


PLANS = (
    Plan("otto", "gpu_memory_errors", "ack", "drained tonight, then reset"),
    Plan(
        "otto",
        "job_idle",
        "snooze",
        "its owner comes back to it this evening",
        lasts=timedelta(hours=12),
    ),
    Plan("amara", "job_idle", "fixed", "ended by its owner once I asked", is_over=True),
    Plan("otto", "job_idle", "not_waste", "held for the workshop, agreed with us", is_over=True),
)


@transaction.atomic
def evaluate_past(now: datetime) -> int:
    """How many incidents the last hours had. None where one of these rules was evaluated before:
    from then on they are what the worker makes of them.
    """
    rules = list(Rule.objects.filter(condition__in=PAST_RULES, is_shipped=True, is_enabled=True))
    is_new = all(rule.evaluated_ms is None for rule in rules)
    if not is_new or not all(has_lock(f"alerts.rule.{rule.pk}") for rule in rules):
        return 0
    _keep_together(rules)
    for moment in sorted({*_moments(now), *_turns(rules, now)}):
        for rule in rules:
            evaluate_rule(rule, moment)
        announce(moment)
        deliver_due(moment, MESSAGES)
        # what was snoozed then is told to nobody at the next moment
        _act(min(moment + LOOKED_AT_AFTER, now), is_past=True)
    return Incident.objects.count()


def _keep_together(rules: Iterable[Rule]) -> None:
    """A cell that somebody runs now and then begins no new incident each time."""
    for rule in rules:
        if rule.condition in IDLE_RULES:
            rule.clear_minutes = CLEAR_MINUTES
            rule.save(update_fields=["clear_minutes"])


def _moments(now: datetime) -> Iterator[datetime]:
    moment = now - LOOKS_BACK
    while moment <= now:
        yield moment
        moment += EVERY


def _turns(rules: Iterable[Rule], now: datetime) -> Iterator[datetime]:
    """When something fired, or was over for as long as its rule asks: between two looks it would be
    raised and resolved long after.
    """
    interval = Interval(now - LOOKS_BACK, now)
    for rule in rules:
        clear_ms = settings_of(rule).timing.clear_ms
        for episode in _episodes(rule, interval):
            over_ms = None if episode.ended_ms is None else episode.ended_ms + clear_ms
            turns = [from_ms(at_ms) for at_ms in (episode.fired_ms, over_ms) if at_ms is not None]
            yield from (at for at in turns if interval.start < at <= now)


def _episodes(rule: Rule, interval: Interval) -> list[Episode]:
    settings = settings_of(rule)
    watch = Watch(settings=settings, start_ms=interval.start_ms, end_ms=interval.end_ms)
    measured = condition(rule.condition).measure(watch)
    return episodes(measured, settings.timing, edge_ms=watch.end_ms)


def act_on_some(now: datetime) -> int:
    """How many incidents somebody did something about: each of the plans is carried out once."""
    return _act(now)


def _act(now: datetime, *, is_past: bool = False) -> int:
    """By whom may act; of a moment of the past by who runs the fleet: the others are in a team
    since the demo began.
    """
    users = User.objects.filter(is_active=True, username__in={plan.who for plan in PLANS})
    people = {user.username: user for user in users if not is_past or may(user, Right.FLEET)}
    return sum(_carry_out(plan, people[plan.who], now) for plan in PLANS if plan.who in people)


def _carry_out(plan: Plan, user: User, now: datetime) -> int:
    """1 where there is such an incident, else 0."""
    if IncidentEvent.objects.filter(kind=plan.action, by=user).exists():
        return 0
    alike = list(_alike(plan))
    theirs = actable(user, alike, now=now)
    incident = next((each for each in alike if each.pk in theirs), None)
    if incident is None:
        return 0
    until = now + plan.lasts if plan.lasts else None
    at = _looked_at(incident, user, now)
    with acting_as(user, at):
        act(incident.pk, Action(plan.action, plan.reason, until=until), by=user, now=at)
    return 1


def _looked_at(incident: Incident, user: User, now: datetime) -> datetime:
    """Minutes after it fired, or was over; of who is in a team since the demo began, now."""
    if not may(user, Right.FLEET):
        return now
    raised_ms = incident.raised_ms or to_ms(now)
    seen_at = incident.resolved_at or from_ms(raised_ms)
    return min(seen_at + LOOKED_AT_AFTER, now)


def _alike(plan: Plan) -> QuerySet[Incident]:
    """Those that nobody did anything about, the oldest first."""
    state = State.RESOLVED if plan.is_over else State.FIRING
    rows = Incident.objects.filter(rule__condition=plan.rule, state=state, verdict="")
    return rows.filter(snoozed_until=None, resolved_by=None).order_by("opened_at", "pk")
