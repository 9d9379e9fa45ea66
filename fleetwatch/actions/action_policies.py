"""What is done by itself, and within which limits: set by operators, switched off by them at any
moment.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from django.db import transaction

from fleetwatch.accounts.audit import record
from fleetwatch.accounts.models import Team, User
from fleetwatch.accounts.permissions import Right, check
from fleetwatch.actions.kinds import KINDS, kind_about, kind_of
from fleetwatch.actions.models import Action, Policy
from fleetwatch.actions.recalling import recall
from fleetwatch.alerts.models import Rule
from fleetwatch.jobs.models import Job
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.lib.sql import wait_for_lock
from fleetwatch.notify.models import Channel
from fleetwatch.notify.transports.webhook import WEBHOOK

# services wait for requests: that nobody asks them is no reason to end them
JOB_KINDS = (Job.Kind.BATCH, Job.Kind.INTERACTIVE)
REHEARSAL = timedelta(days=7)
LEAST_WAIT = 10  # minutes
LONGEST_WAIT = 24 * 60
MOST_PER_HOUR = 100
MOST_USD_PER_HOUR = 100_000
OFF = "its policy was switched off"
Kind = Policy.Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTerms:
    """How a policy is set; whether it is on is no part of it. No teams, or no job kinds: no job is
    acted on; of nodes there are none. `dry_run_until` None: as it is.
    """

    teams: tuple[Team, ...]
    job_kinds: tuple[str, ...]
    first_wait_minutes: int
    second_wait_minutes: int
    max_per_hour: int
    max_usd_per_hour: Decimal
    channel: Channel | None = None
    dry_run_until: datetime | None = None


def terms_of_policy(policy: Policy) -> PolicyTerms:
    """The policy's as they are."""
    return PolicyTerms(
        teams=tuple(policy.teams.order_by("slug")),
        job_kinds=tuple(policy.job_kinds),
        first_wait_minutes=policy.first_wait_minutes,
        second_wait_minutes=policy.second_wait_minutes,
        max_per_hour=policy.max_per_hour,
        max_usd_per_hour=policy.max_usd_per_hour,
        channel=policy.channel,
        dry_run_until=policy.dry_run_until,
    )


@transaction.atomic
def add_policy(rule: Rule, kind: str, *, by: User, now: datetime) -> Policy:
    """A policy of the rule, switched off, that names nobody.

    Raises RefusedFieldError, and PermissionDenied for who does not run the fleet.
    """
    check(by, Right.FLEET)
    _check_kind(rule, kind)
    if Policy.objects.filter(rule=rule).exists():
        raise RefusedFieldError(f"{rule.name} has one already", field="rule")
    policy = Policy.objects.create(
        rule=rule,
        kind=kind,
        job_kinds=[],
        first_wait_minutes=60,
        second_wait_minutes=60,
        max_per_hour=1,
        max_usd_per_hour=Decimal(50),
        created_at=now,
    )
    record("action.add_policy", rule.name, kind=kind)
    return policy


def kinds_about(rule: Rule) -> list[Kind]:
    """What a policy can do about what the rule watches; [] where it can have none."""
    done = kind_about(rule.condition)
    return [Kind(done.name), Kind.WEBHOOK] if done else []


def _check_kind(rule: Rule, kind: str) -> None:
    """Whether that can be done about what the rule watches. Raises RefusedFieldError."""
    if kind not in Kind.values:
        raise RefusedFieldError(f"it is one of {', '.join(Kind.values)}", field="kind")
    done = kind_about(rule.condition)
    if done is None:
        raise RefusedFieldError(
            f"only {' and '.join(each.rules for each in KINDS)} can have one: of what others watch"
            " nobody can say that it rests, or is broken",
            field="rule",
        )
    if kind not in kinds_about(rule):
        raise RefusedFieldError(
            f"of {done.rules} one can {Kind(done.name).label} or {Kind.WEBHOOK.label}", field="kind"
        )


@transaction.atomic
def set_policy(policy: Policy, terms: PolicyTerms, *, by: User, now: datetime) -> Policy:
    """The policy with new terms, as much on or off as it was, from this moment on: whoever is about
    to act by the old ones is waited for. With teams or job kinds that it did not name, whose jobs
    were in no dry run, its week begins anew.

    Raises RefusedFieldError, and PermissionDenied for who does not run the fleet.
    """
    check(by, Right.FLEET)
    _hold(policy)
    _check(policy, terms)
    if _is_wider(policy, terms):
        policy.rehearsed_from = now if policy.is_enabled else None
        policy.dry_run_until = now + REHEARSAL if policy.is_enabled else None
        terms = replace(terms, dry_run_until=_later(terms.dry_run_until, policy.dry_run_until))
    policy.dry_run_until = _dry_run_until(policy, terms)
    policy.job_kinds = sorted(terms.job_kinds)
    policy.first_wait_minutes = terms.first_wait_minutes
    policy.second_wait_minutes = terms.second_wait_minutes
    policy.max_per_hour = terms.max_per_hour
    policy.max_usd_per_hour = terms.max_usd_per_hour
    policy.channel = terms.channel
    policy.save()
    policy.teams.set(terms.teams)
    _record(policy)
    return policy


@transaction.atomic
def switch_policy(policy: Policy, *, is_enabled: bool, by: User, now: datetime) -> Policy:
    """The policy on, or off, from this moment on; its terms stay what they are by then. When it is
    switched on first, a week of dry run begins.

    Raises RefusedFieldError where its terms do not let it act, and PermissionDenied for who does
    not run the fleet.
    """
    check(by, Right.FLEET)
    _hold(policy)
    policy.is_enabled = is_enabled
    _check_channel(policy, policy.channel)
    if is_enabled and policy.rehearsed_from is None:
        policy.rehearsed_from = now
        policy.dry_run_until = now + REHEARSAL
    policy.save(update_fields=["is_enabled", "rehearsed_from", "dry_run_until"])
    if not is_enabled:
        _end_ladders(policy, now)
    _record(policy)
    return policy


@transaction.atomic
def remove_policy(policy: Policy, *, by: User, now: datetime) -> None:
    """It is gone; what it did stays in the history. Raises PermissionDenied, and RefusedFieldError
    where it was gone already.
    """
    check(by, Right.FLEET)
    _hold(policy)
    _end_ladders(policy, now)
    record("action.remove_policy", policy.rule.name, kind=policy.kind)
    policy.delete()


def lock_name(policy_id: int) -> str:
    """Of the lock that is held while the policy acts, or changes."""
    return f"actions.policy.{policy_id}"


def _hold(policy: Policy) -> None:
    """The policy as it is by now, which nobody acts by, or changes, until the transaction ends.

    Raises RefusedFieldError where it is gone.
    """
    wait_for_lock(lock_name(policy.pk))
    try:
        policy.refresh_from_db()
    except Policy.DoesNotExist as error:
        raise RefusedFieldError("somebody removed it meanwhile") from error


def is_about_nobody(policy: Policy) -> bool:
    """Whether it acts for no one: it is of teams, and names no team or no kind of job."""
    is_of_teams = kind_of(policy.rule.condition).is_of_teams
    return is_of_teams and not (policy.job_kinds and policy.teams.exists())


def is_dry_run(policy: Policy, now: datetime) -> bool:
    """Whether nobody is warned and nothing is done."""
    return policy.dry_run_until is None or now < policy.dry_run_until


def _is_wider(policy: Policy, terms: PolicyTerms) -> bool:
    """Whether it was rehearsed, and is about to name more."""
    is_of_more = not set(terms.teams) <= set(policy.teams.all())
    is_of_more = is_of_more or not set(terms.job_kinds) <= set(policy.job_kinds)
    return policy.rehearsed_from is not None and is_of_more


def _later(wanted: datetime | None, least: datetime | None) -> datetime | None:
    return least if wanted is None or least is None else max(wanted, least)


def _dry_run_until(policy: Policy, terms: PolicyTerms) -> datetime | None:
    """None before it was switched on first. Raises RefusedFieldError."""
    if policy.rehearsed_from is None:
        return None
    least = policy.rehearsed_from + REHEARSAL
    wanted = terms.dry_run_until or policy.dry_run_until or least
    if wanted < least:
        raise RefusedFieldError(
            f"the first week is a dry run: until {least:%Y-%m-%d %H:%M} UTC at least",
            field="dry_run_until",
        )
    return wanted


def _check(policy: Policy, terms: PolicyTerms) -> None:
    """Raises RefusedFieldError."""
    if not set(terms.job_kinds) <= set(JOB_KINDS):
        raise RefusedFieldError(f"one of {', '.join(JOB_KINDS)}", field="job_kinds")
    for name in ("first_wait_minutes", "second_wait_minutes"):
        if not LEAST_WAIT <= getattr(terms, name) <= LONGEST_WAIT:
            raise RefusedFieldError(f"{LEAST_WAIT} to {LONGEST_WAIT} minutes", field=name)
    if not 1 <= terms.max_per_hour <= MOST_PER_HOUR:
        raise RefusedFieldError(f"1 to {MOST_PER_HOUR} an hour", field="max_per_hour")
    amount = terms.max_usd_per_hour
    if not (amount.is_finite() and Decimal("0.01") <= amount <= MOST_USD_PER_HOUR):
        raise RefusedFieldError(f"$0.01 to ${MOST_USD_PER_HOUR:,}", field="max_usd_per_hour")
    _check_channel(policy, terms.channel)
    if not kind_of(policy.rule.condition).is_of_teams and (terms.teams or terms.job_kinds):
        raise RefusedFieldError("a node is no team's: narrow its rule instead", field="teams")


def _check_channel(policy: Policy, channel: Channel | None) -> None:
    if policy.kind != Kind.WEBHOOK:
        return
    if channel is None and policy.is_enabled:
        raise RefusedFieldError("which webhook is called?", field="channel")
    if channel is not None and channel.kind != WEBHOOK.kind:
        raise RefusedFieldError("it is a channel that is a signed webhook", field="channel")


def _end_ladders(policy: Policy, now: datetime) -> None:
    """Those that wait for somebody to answer; what was ordered is taken back, and its answer waited
    for: it may be too late.
    """
    for ladder in policy.actions.filter(state=Action.State.ORDERED).select_related("call"):
        recall(ladder, now)
    waiting = policy.actions.filter(
        ended_at=None, state__in=(Action.State.WARNED, Action.State.WARNED_AGAIN)
    )
    waiting.update(state=Action.State.ENDED, result=OFF, ended_at=now)


def _record(policy: Policy) -> None:
    until = policy.dry_run_until
    record(
        "action.set_policy",
        policy.rule.name,
        kind=policy.kind,
        is_enabled=policy.is_enabled,
        teams=sorted(team.slug for team in policy.teams.all()),
        job_kinds=list(policy.job_kinds),
        first_wait_minutes=policy.first_wait_minutes,
        second_wait_minutes=policy.second_wait_minutes,
        max_per_hour=policy.max_per_hour,
        max_usd_per_hour=str(policy.max_usd_per_hour),
        channel=policy.channel.name if policy.channel else "",
        dry_run_until=until.isoformat() if until else "",
    )
