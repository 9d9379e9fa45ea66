"""Writes of mapping rules: from when to when, at cuts of the ledger, and never in a closed
month.
"""

from dataclasses import asdict
from datetime import datetime

from django.db import transaction

from fleetwatch.accounts.audit import record
from fleetwatch.accounts.services import ensure_teams
from fleetwatch.costs.changing import Book, OpenBook, open_book
from fleetwatch.costs.mapping import attribution, rule_terms
from fleetwatch.costs.mapping.rule_terms import MappingError, Terms
from fleetwatch.costs.models import MappingRule

MAX_RULES = 2_000  # each is asked of each job: more make a change of rules slow
RULES = Book(
    attribution.LOCK,
    MappingError,
    "rule",
    "All before {day} is closed and keeps its lines: begin there.",
)


@transaction.atomic
def add_rule(terms: Terms, *, now: datetime, by: str = "") -> MappingRule:
    """The new rule; the jobs that it matches belong where it says at once.

    Raises MappingError, also for moments in a closed month.
    """
    rule = create(terms, open_book(RULES), by=by, now=now)
    attribution.attribute(attribution.touched([rule]))
    return rule


@transaction.atomic
def end_rule(rule: MappingRule, at: datetime) -> None:
    """From then on the rule says nothing.

    Raises MappingError where that is no moment of it, or lies in a closed month.
    """
    book = open_book(RULES)
    book.read_again(rule)
    book.check_moment(at, field="valid_to")
    if at <= rule.valid_from or (rule.valid_to is not None and at >= rule.valid_to):
        raise MappingError(
            "A rule ends after it begins, and not after it ended: withdraw it or add another.",
            field="valid_to",
        )
    book.check_open(at, field="valid_to")
    rule.valid_to = at
    rule.save(update_fields=["valid_to"])
    attribution.attribute(attribution.touched([rule]))
    _record("mapping.end", rule)


@transaction.atomic
def withdraw_rule(rule: MappingRule) -> None:
    """Deletes a rule as if it had never been.

    Raises MappingError where some of its time is closed: such a one is ended.
    """
    book = open_book(RULES)
    book.read_again(rule)
    lines = "It held in a closed month, which keeps its lines: end it from {day} on instead."
    book.check_open(rule.valid_from, field="", text=lines)
    jobs = attribution.touched([rule])
    _record("mapping.withdraw", rule)
    rule.delete()
    attribution.attribute(jobs)


def create(terms: Terms, book: OpenBook, *, by: str, now: datetime) -> MappingRule:
    """The new rule, not yet applied to jobs: the caller does that. Raises MappingError."""
    rule_terms.check(terms)
    book.check_moment(terms.valid_from, field="valid_from")
    book.check_open(terms.valid_from)
    book.check_end(terms.valid_from, terms.valid_to)
    if MappingRule.objects.count() >= MAX_RULES:
        raise MappingError(
            f"There are {MAX_RULES:,} rules already: withdraw some, or ask with patterns.", field=""
        )
    gives = terms.gives
    rule = MappingRule.objects.create(
        **asdict(terms.asks),
        team_id=ensure_teams({gives.team})[gives.team] if gives.team else None,
        project=gives.project,
        cost_centre=gives.cost_centre,
        **{name: getattr(terms, name) for name in ("valid_from", "valid_to", "priority", "note")},
        created_at=now,
        created_by=by[:200],
    )
    _record("mapping.add", rule)
    return rule


def _record(action: str, rule: MappingRule) -> None:
    words = f"{attribution.conditions(rule).words}: {attribution.gives(rule).words}"
    record(action, words, valid_from=rule.valid_from.isoformat())
