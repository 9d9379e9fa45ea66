"""Budgets, forecasts and anomalies in the read API."""

from datetime import date, datetime
from functools import partial
from typing import Annotated

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema
from pydantic import Field

from fleetwatch.accounts.models import Team
from fleetwatch.api.answer_types import Answer, Joined, Usd, UsdOrNone, fields_of, read_as
from fleetwatch.api.request_period import asked, required
from fleetwatch.api.schemas import MAY_BE_MISSING, Listed, Name, Paging, PeriodAsked
from fleetwatch.api.vocabulary import AnomalyMetric, Risk, SeriesKind
from fleetwatch.budgets import month_end, selectors, unusual

router = Router(tags=["budgets"])


# dollars that nobody spent yet are told in cents: more would be made up
Cents = Annotated[float, read_as(lambda amount: round(amount, 2))]


class BudgetRow(Schema):
    """The running month of a team; team "" is the whole fleet. null = not known, or no budget.

    expected, low and high are for the month's end: low to high holds 8 of 10 outcomes. passes_at is
    when the budget is passed at the expected rate, may_pass_at when at the upper end.
    recorded_since: of the month before that nothing is known; null = all of it was recorded. The
    risk "partial month" is what pages call "days missing": within the budget so far, of a month of
    which not every day was recorded.
    """

    team: str = Field(alias="key")
    label: str
    month: date
    known_until: datetime | None
    spent_usd: Usd
    unpriced_ms: int
    budget_usd: UsdOrNone
    budget_amount: float | None = Field(alias="limit.budget.amount")
    budget_currency: str | None = Field(alias="limit.budget.currency")
    expected_usd: Cents | None = Field(alias="end.end.expected_usd")
    low_usd: Cents | None = Field(alias="end.end.low_usd")
    high_usd: Cents | None = Field(alias="end.end.high_usd")
    passes_at: datetime | None = Field(alias="end.passes_at")
    may_pass_at: datetime | None = Field(alias="end.may_pass_at")
    recorded_since: datetime | None
    risk: Risk
    note: str = Field(alias="reason")


class BudgetPage(Listed[BudgetRow]):
    """The whole fleet first, then teams, the most pressing first."""


class ForecastStep(fields_of(month_end.Step, {float: Cents})):  # type: ignore[misc]
    pass


class ForecastError(Schema):
    """|actual ÷ forecast − 1| in the median of so many earlier days, so many days ahead."""

    days_ahead: int = Field(alias="days")
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
    movers: Annotated[
        list[AnomalyMover],
        read_as(
            lambda movers: [Joined(each, kind=kind) for kind, every in movers for each in every]
        ),
    ]


class AnomalyPage(Listed[AnomalyRow]):
    """Anomalies that overlap the period, the newest first."""


@router.get("/budgets", operation_id="listBudgets", response=BudgetPage)
def budgets(request: HttpRequest, paging: Paging) -> Answer:
    """The running month of every team: spent, expected, budget."""
    now = timezone.now()
    lines = selectors.lines(now)
    return asked(request).listed(lines, paging.limit, partial(Joined, **_month(now)))


@router.get(
    "/forecast", operation_id="getForecast", response=Forecast, openapi_extra=MAY_BE_MISSING
)
def forecast(request: HttpRequest, team: Name = None) -> Joined:
    """The running month of one team, or without one of the whole fleet, by days."""
    now = timezone.now()
    whose = team and required(Team.objects.filter(slug=team).first(), "team", field="team")
    line = selectors.line(whose or None, now)
    return Joined(line, steps=line.end.steps if line.end else (), **_month(now))


@router.get("/anomalies", operation_id="listAnomalies", response=AnomalyPage)
def anomalies(
    request: HttpRequest,
    period: PeriodAsked,
    paging: Paging,
    kind: SeriesKind | None = None,
    key: Name = None,
) -> Answer:
    """Hours that were unusual in the period."""
    wanted = asked(request)
    anomalies = unusual.anomalies_of(wanted.interval, kind=kind, key=key, now=timezone.now())
    return wanted.listed(anomalies, paging.limit, lambda seen: Joined(seen, seen.anomaly))


def _month(now: datetime) -> Answer:
    month = selectors.running_month(now)
    return {"month": month.first, "known_until": month.so_far and month.so_far.end}
