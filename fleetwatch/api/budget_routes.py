"""Budgets, forecasts and anomalies in the read API."""

from datetime import date, datetime
from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router, Schema

from fleetwatch.accounts.models import Team
from fleetwatch.api import schemas
from fleetwatch.api.request_period import RequestError, asked
from fleetwatch.api.vocabulary import AnomalyMetric, Risk, SeriesKind
from fleetwatch.budgets import selectors, unusual
from fleetwatch.budgets.selectors import Line
from fleetwatch.budgets.unusual import Seen
from fleetwatch.figures.pricing import usd

Answer = dict[str, Any]

router = Router(tags=["budgets"])


class BudgetRow(Schema):
    """The running month of a team; team "" is the whole fleet. null = not known, or no budget.

    expected, low and high are for the month's end: low to high holds 8 of 10 outcomes. passes_at is
    when the budget is passed at the expected rate, may_pass_at when at the upper end.
    """

    team: str
    label: str
    month: date
    known_until: datetime | None
    spent_usd: float
    unpriced_ms: int
    budget_usd: float | None
    budget_amount: float | None
    budget_currency: str | None
    expected_usd: float | None
    low_usd: float | None
    high_usd: float | None
    passes_at: datetime | None
    may_pass_at: datetime | None
    risk: Risk
    note: str


class BudgetPage(Schema):
    """The whole fleet first, then teams, the most pressing first."""

    rows: list[BudgetRow]
    next_cursor: str | None


class ForecastStep(Schema):
    until: datetime
    expected_usd: float
    low_usd: float
    high_usd: float


class ForecastError(Schema):
    """|actual ÷ forecast − 1| in the median of so many earlier days, so many days ahead."""

    days_ahead: int
    median_error: float
    tries: int


class Forecast(BudgetRow):
    """What is expected to have been spent of the month by the end of each day."""

    steps: list[ForecastStep]
    tried: list[ForecastError]


class AnomalyMover(Schema):
    kind: str
    key: str
    label: str
    usd: float


class AnomalyRow(Schema):
    """Hours of a team, GPU model, node or the fleet (key "") that cost or wasted far from the
    usual.
    """

    kind: SeriesKind
    key: str
    label: str
    metric: AnomalyMetric
    start: datetime
    end: datetime
    is_open: bool
    usd: float
    usual_usd: float
    excess_usd: float
    spreads: float
    movers: list[AnomalyMover]


class AnomalyPage(Schema):
    """Anomalies that overlap the period, the newest first."""

    rows: list[AnomalyRow]
    next_cursor: str | None


@router.get("/budgets", operation_id="listBudgets", response=BudgetPage)
def budgets(request: HttpRequest, paging: Query[schemas.Page]) -> Answer:
    """The running month of every team: spent, expected, budget."""
    wanted, now = asked(request), timezone.now()
    page, following = wanted.page(selectors.lines(now), paging.limit)
    return {"rows": [_budget_row(line, now) for line in page], "next_cursor": following}


@router.get(
    "/forecast", operation_id="getForecast", response=Forecast, openapi_extra=schemas.MAY_BE_MISSING
)
def forecast(request: HttpRequest, team: schemas.Name = None) -> Answer:
    """The running month of one team, or without one of the whole fleet, by days."""
    now = timezone.now()
    found = Team.objects.filter(slug=team).first() if team else None
    if team and found is None:
        raise RequestError("there is no such team", field="team", status=404)
    line = selectors.line(found, now)
    steps = [] if line.end is None else line.end.steps
    return _budget_row(line, now) | {
        "steps": [
            {"until": step.until} | _ends(step.expected_usd, step.low_usd, step.high_usd)
            for step in steps
        ],
        "tried": [
            {"days_ahead": each.days, "median_error": each.median_error, "tries": each.tries}
            for each in line.tried
        ],
    }


@router.get("/anomalies", operation_id="listAnomalies", response=AnomalyPage)
def anomalies(
    request: HttpRequest,
    period: Query[schemas.PeriodQuery],
    paging: Query[schemas.Page],
    kind: SeriesKind | None = None,
    key: schemas.Name = None,
) -> Answer:
    """Hours that were unusual in the period."""
    wanted = asked(request)
    found = unusual.anomalies_of(wanted.interval, kind=kind, key=key, now=timezone.now())
    page, following = wanted.page(found, paging.limit)
    return {"rows": [_anomaly_row(seen) for seen in page], "next_cursor": following}


def _budget_row(line: Line, now: datetime) -> Answer:
    month = selectors.running_month(now)
    budget = None if line.limit is None else line.limit.budget
    end = None if line.end is None else line.end.end
    return {
        "team": line.key,
        "label": line.label,
        "month": month.first,
        "known_until": None if month.so_far is None else month.so_far.end,
        "spent_usd": float(usd(line.spent_usd)),
        "unpriced_ms": line.unpriced_ms,
        "budget_usd": None if line.budget_usd is None else float(usd(line.budget_usd)),
        "budget_amount": None if budget is None or budget.amount is None else float(budget.amount),
        "budget_currency": None if budget is None else budget.currency,
        **(
            _ends(None, None, None)
            if end is None
            else _ends(end.expected_usd, end.low_usd, end.high_usd)
        ),
        "passes_at": None if line.end is None else line.end.passes_at,
        "may_pass_at": None if line.end is None else line.end.may_pass_at,
        "risk": line.risk,
        "note": line.reason,
    }


def _ends(*amounts: float | None) -> Answer:
    """Dollars that nobody spent yet are told in cents: more would be made up."""
    names = ("expected_usd", "low_usd", "high_usd")
    return {
        name: None if amount is None else round(amount, 2)
        for name, amount in zip(names, amounts, strict=True)
    }


def _anomaly_row(seen: Seen) -> Answer:
    row = seen.anomaly
    names = ("kind", "key", "metric", "start", "end", "spreads")
    amounts = {
        "usd": float(row.usd),
        "usual_usd": float(row.usual_usd),
        "excess_usd": float(seen.excess_usd),
    }
    movers = [
        {"kind": kind, "key": mover.key, "label": mover.label, "usd": float(mover.usd)}
        for kind, of_kind in seen.movers
        for mover in of_kind
    ]
    return (
        {"label": seen.label, "is_open": seen.is_open, "movers": movers}
        | amounts
        | {name: getattr(row, name) for name in names}
    )
