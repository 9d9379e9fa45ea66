"""A report's budget: what might be spent in the month, what was, and while the month runs what is
expected at its end.
"""

from datetime import date
from decimal import Decimal

from fleetwatch.accounts.selectors import zone
from fleetwatch.budgets import budgets, calendar, month_end, outlooks
from fleetwatch.budgets.budgets import Limit
from fleetwatch.budgets.models import Outlook
from fleetwatch.budgets.month_end import MonthEnd, Step
from fleetwatch.figures.pricing import CENT, usd
from fleetwatch.figures.totals import WHY
from fleetwatch.lib.intervals import Interval
from fleetwatch.reports.statement import Shape, rounded

KINDS = ("fleet", "team")


def budget(
    subject: str, month: Interval, cost_usd: Decimal, *, is_partial: bool = False
) -> Shape | None:
    """What a report says of it; None where there is neither a budget nor a forecast, and of time
    without a team, which is nobody's budget.

    `subject` is a team's slug, "" the fleet. `is_partial`: the month was recorded in part.
    """
    if subject in WHY:
        return None
    first, rest = _around(month)
    limit = budgets.limits(first).get(subject)
    outlook = _outlook(subject, rest)
    budget_usd = None if limit is None else limit.usd
    ahead = outlooks.until_month_end(outlook, rest, cost_usd, budget_usd=budget_usd)
    if limit is None and ahead is None:
        return None
    end = None if ahead is None else ahead.end
    is_open = rest is not None
    return {
        "budget_usd": rounded(budget_usd),
        "spent_usd": cost_usd,
        "is_open": is_open,
        "risk": _risk(cost_usd, budget_usd, end, is_open=is_open, is_partial=is_partial),
        "note": _note(limit, outlook, cost_usd, ahead, is_open=is_open),
        **_expected(end),
    }


def _outlook(subject: str, rest: Interval | None) -> Outlook | None:
    """The subject's forecast; None where there is none, or the month is over."""
    if rest is None:
        return None
    return outlooks.all_of("team" if subject else "fleet").get(subject)


def teams(month: Interval) -> set[str]:
    """The slugs of the teams that have a budget in the month: they get a statement, whatever their
    GPU time was.
    """
    first, _ = _around(month)
    return budgets.limits(first).keys() - {budgets.WHOLE_FLEET}


def digest(month: Interval) -> str:
    """Changes with whatever budget() says of any team: budgets, their rates of exchange, and
    while the month runs its forecasts.
    """
    first, rest = _around(month)
    limits = sorted(
        (slug, limit.budget.pk, limit.usd) for slug, limit in budgets.limits(first).items()
    )
    forecasts = (
        Outlook.objects.filter(kind__in=KINDS).order_by("pk").values_list("kind", "key", "made_at")
    )
    return f"{limits} {[] if rest is None else list(forecasts)}"


def _around(month: Interval) -> tuple[date, Interval | None]:
    """The month's first day, and what of it the report does not cover yet; None = it is over."""
    home = zone()
    first = calendar.month_of(month.start, home)
    end = calendar.month(first, home).end
    return first, Interval(month.end, end) if month.end < end else None


def _risk(
    spent_usd: Decimal,
    budget_usd: Decimal | None,
    end: Step | None,
    *,
    is_open: bool,
    is_partial: bool,
) -> str:
    if is_open:
        return month_end.risk(spent_usd, budget_usd, end, is_partial=is_partial)
    if budget_usd is None:
        return month_end.UNKNOWN
    if spent_usd > budget_usd:
        return month_end.OVER
    return month_end.PARTIAL if is_partial else month_end.WITHIN


def _note(
    limit: Limit | None,
    outlook: Outlook | None,
    spent_usd: Decimal,
    ahead: MonthEnd | None,
    *,
    is_open: bool,
) -> str:
    """What a reader has to know of the figures; "" = nothing."""
    notes = [outlooks.reason(outlook, spent_usd, ahead)] if is_open else []
    if limit is not None and limit.usd is None:
        notes.insert(0, f"Nobody said what one {limit.budget.currency} is in dollars.")
    return " ".join(filter(None, notes))


def _expected(end: Step | None) -> Shape:
    names = ("expected_usd", "low_usd", "high_usd")
    return {name: None if end is None else usd(Decimal(getattr(end, name)), CENT) for name in names}
