"""Writes of mapping rules: from when to when, at cuts of the ledger, and never in a closed
month.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import structlog
from django.db import transaction

from fleetwatch.accounts.selectors import zone
from fleetwatch.accounts.services import ensure_teams
from fleetwatch.costs.mapping import attribution, rule_terms
from fleetwatch.costs.mapping.rule_terms import Conditions, Gives, MappingError
from fleetwatch.costs.models import MappingRule
from fleetwatch.figures import boundaries
from fleetwatch.ledger.months.closing import keep_open
from fleetwatch.ledger.selectors import closed_until
from fleetwatch.lib.sql import wait_for_lock

MAX_RULES = 2_000  # each is asked of each job: more make a change of rules slow

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class NewRule:
    """What a rule says over [valid_from, valid_to), None = until it is ended."""

    asks: Conditions
    gives: Gives
    valid_from: datetime
    valid_to: datetime | None = None
    priority: int = rule_terms.USUAL
    note: str = ""


@transaction.atomic
def add_rule(new: NewRule, *, now: datetime, by: str = "") -> MappingRule:
    """The new rule; the jobs that it matches belong where it says at once.

    Raises MappingError, also for moments in a closed month.
    """
    with writing():
        rule = create(new, by=by, now=now)
        attribution.attribute(attribution.touched([rule]))
    return rule


@transaction.atomic
def end_rule(rule: MappingRule, at: datetime) -> None:
    """From then on the rule says nothing.

    Raises MappingError where that is no moment of it, or lies in a closed month.
    """
    with writing():
        _read_again(rule)
        _check_moment(at, field="valid_to")
        if at <= rule.valid_from or (rule.valid_to is not None and at >= rule.valid_to):
            raise MappingError(
                "A rule ends after it begins, and not after it ended: withdraw it or add another.",
                field="valid_to",
            )
        _check_open(at, field="valid_to")
        rule.valid_to = at
        rule.save(update_fields=["valid_to"])
        attribution.attribute(attribution.touched([rule]))
        _say("mapping rule ended", rule)


@transaction.atomic
def withdraw_rule(rule: MappingRule) -> None:
    """Deletes a rule as if it had never been.

    Raises MappingError where some of its time is closed: such a one is ended.
    """
    with writing():
        _read_again(rule)
        closed = closed_until()
        if closed is not None and rule.valid_from < closed:
            day = f"{closed.astimezone(zone()):%Y-%m-%d}"
            raise MappingError(
                f"It held in a closed month, which keeps its lines: end it from {day} on instead.",
                field="",
            )
        jobs = attribution.touched([rule])
        _say("mapping rule withdrawn", rule)
        rule.delete()
        attribution.attribute(jobs)


@contextmanager
def writing() -> Iterator[None]:
    """Others who change rules, or close a month, wait until the caller's transaction ends."""
    wait_for_lock(attribution.LOCK)
    keep_open()
    yield


def create(new: NewRule, *, by: str, now: datetime) -> MappingRule:
    """The new rule, not yet applied to jobs: the caller does that, inside of writing().

    Raises MappingError.
    """
    asks = new.asks
    gives = new.gives
    rule_terms.checked(asks, gives, priority=new.priority, note=new.note)
    _check_span(new.valid_from, new.valid_to)
    if MappingRule.objects.count() >= MAX_RULES:
        raise MappingError(
            f"There are {MAX_RULES:,} rules already: withdraw some, or ask with patterns.", field=""
        )
    rule = MappingRule.objects.create(
        priority=new.priority,
        user=asks.user,
        account=asks.account,
        namespace=asks.namespace,
        partition=asks.partition,
        label=asks.label,
        label_value=asks.label_value,
        team_id=ensure_teams({gives.team})[gives.team] if gives.team else None,
        project=gives.project,
        cost_centre=gives.cost_centre,
        valid_from=new.valid_from,
        valid_to=new.valid_to,
        note=new.note,
        created_at=now,
        created_by=by[:200],
    )
    _say("mapping rule added", rule)
    return rule


def _read_again(rule: MappingRule) -> None:
    """The rule becomes what it is now.

    Raises MappingError where somebody withdrew it while we waited.
    """
    try:
        rule.refresh_from_db()
    except MappingRule.DoesNotExist:
        raise MappingError("Somebody withdrew it meanwhile.", field="") from None


def _check_span(valid_from: datetime, valid_to: datetime | None) -> None:
    _check_moment(valid_from, field="valid_from")
    _check_open(valid_from, field="valid_from")
    if valid_to is None:
        return
    _check_moment(valid_to, field="valid_to")
    if valid_to <= valid_from:
        raise MappingError("A rule has to end after it begins.", field="valid_to")


def _check_moment(moment: datetime, *, field: str) -> None:
    organisation_zone = zone()
    if not boundaries.is_cut(moment, organisation_zone):
        raise MappingError(
            f"A rule changes on a full UTC hour or at midnight in {organisation_zone.key}, not at"
            f" {moment}.",
            field=field,
        )


def _check_open(moment: datetime, *, field: str) -> None:
    closed = closed_until()
    if closed is not None and moment < closed:
        raise MappingError(
            f"All before {closed.astimezone(zone()):%Y-%m-%d} is closed and keeps its lines: begin"
            " there.",
            field=field,
        )


def _say(event: str, rule: MappingRule) -> None:
    """Logs it once it is true: a preview is taken back."""
    facts = {
        "rule": rule.pk,
        "asks": attribution.conditions(rule).words,
        "gives": attribution.gives(rule).words,
    }
    transaction.on_commit(partial(log.info, event, valid_from=rule.valid_from.isoformat(), **facts))
