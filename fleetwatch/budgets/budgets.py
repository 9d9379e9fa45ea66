"""Budgets: what may be spent in a month.

Set by admins, kept with who and when, never overwritten.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from django.db import transaction
from django.db.models import QuerySet

from fleetwatch.accounts.audit import record
from fleetwatch.accounts.models import Team
from fleetwatch.accounts.selectors import zone
from fleetwatch.budgets import calendar
from fleetwatch.budgets.models import Budget
from fleetwatch.costs.rates import exchange
from fleetwatch.costs.rates.subjects import RateError
from fleetwatch.figures.pricing import CENT, sum_if_all_known
from fleetwatch.lib.refusal import RefusedFieldError

MAX_AMOUNT = Decimal(10_000_000_000)  # a higher one is a typing error
MONTHS_AHEAD = 36
WHOLE_FLEET = ""  # the slug that stands for all teams and what no team held


class BudgetError(RefusedFieldError):
    """A budget that can't be."""


@dataclass(frozen=True, slots=True)
class Limit:
    """The budget that counts in a month, in dollars; usd None = nobody said what its currency is
    worth then.
    """

    budget: Budget
    usd: Decimal | None


@transaction.atomic
def set_budget(budget: Budget, *, now: datetime, by: str) -> Budget:
    """Stores what the team (None: the whole fleet) may spend in the month, and where it repeats in
    those after it.

    An amount of None ends a budget. A month that is over keeps what it had. Raises BudgetError.
    """
    _check_month(budget.month, now)
    if budget.amount is not None:
        _check_amount(budget.amount)
        _usd_per_unit(budget.currency, budget.month)
    before = counting(Budget.objects.filter(team=budget.team), budget.month)
    budget.created_at = now
    budget.created_by = by[:200]
    budget.save(force_insert=True)
    record(
        "budget.set",
        "the whole fleet" if budget.team is None else budget.team.slug,
        month=f"{budget.month:%Y-%m}",
        amount=None if budget.amount is None else str(budget.amount),
        currency=budget.currency,
        before=None if before is None else f"{before.amount} {before.currency}",
    )
    return budget


def counting(rows: Iterable[Budget], month: date) -> Budget | None:
    """The one of a team's budgets that counts in the month. Pure.

    One of that very month is stronger than a repeating one that began before; of one month the
    newest counts. One without an amount says that there is no budget: None.
    """
    holding = [row for row in rows if row.month == month or (row.repeats and row.month < month)]
    newest = max(holding, key=lambda row: (row.month, row.created_at, row.pk), default=None)
    return None if newest is None or newest.amount is None else newest


def sum_of_teams(every: Mapping[str, Limit]) -> Decimal | None:
    """What the teams' budgets of limits() come to; None where no team has one, or a rate of
    exchange is missing.
    """
    amounts = [limit.usd for slug, limit in every.items() if slug != WHOLE_FLEET]
    return sum_if_all_known(amounts) if amounts else None


def limits(month: date) -> dict[str, Limit]:
    """The budgets that count in the month, by the team's slug, or WHOLE_FLEET."""
    by_team: dict[str, list[Budget]] = {}
    for row in Budget.objects.select_related("team").filter(month__lte=month):
        by_team.setdefault(WHOLE_FLEET if row.team is None else row.team.slug, []).append(row)
    every = {slug: limit(rows, month) for slug, rows in by_team.items()}
    return {slug: each for slug, each in every.items() if each is not None}


def limit(rows: Iterable[Budget], month: date) -> Limit | None:
    """The one of a team's budgets, or of the whole fleet's, that counts in the month."""
    budget = counting(rows, month)
    return None if budget is None else Limit(budget, usd_of(budget, month))


def usd_of(budget: Budget | None, month: date) -> Decimal | None:
    """In dollars, by the rate of exchange that holds when the month begins: a budget does not move
    within its month.
    """
    if budget is None or budget.amount is None:
        return None
    try:
        return budget.amount * _usd_per_unit(budget.currency, month)
    except BudgetError:
        return None


def history(team: Team | None) -> QuerySet[Budget]:
    """Every budget that was set for the team, or the whole fleet, the newest first."""
    return Budget.objects.filter(team=team).order_by("-created_at", "-pk")


def months(now: datetime) -> Sequence[date]:
    """The months for which a budget can be set, from the running one on."""
    firsts = [calendar.month_of(now, zone())]
    while len(firsts) <= MONTHS_AHEAD:
        firsts.append(calendar.following(firsts[-1]))
    return firsts


def _usd_per_unit(currency: str, month: date) -> Decimal:
    try:
        return exchange.usd_per_unit(currency, calendar.month(month, zone()).start)
    except RateError as error:
        raise BudgetError(
            f"{error} Set its rate of exchange first (Settings, Rates).", field="currency"
        ) from error


def _check_month(month: date, now: datetime) -> None:
    allowed = months(now)
    if month not in allowed:
        raise BudgetError(
            f"A budget is for a month from {allowed[0]:%Y-%m} to {allowed[-1]:%Y-%m}, not"
            f" {month:%Y-%m}.",
            field="month",
        )


def _check_amount(amount: Decimal) -> None:
    if not amount.is_finite() or not 0 < amount <= MAX_AMOUNT or amount != amount.quantize(CENT):
        raise BudgetError(
            f"A budget is above 0, at most {MAX_AMOUNT:,} and in whole cents, not {amount}.",
            field="amount",
        )
