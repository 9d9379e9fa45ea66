"""Budgets: every team's month against what it may spend; one team's; and what was unusual."""

from collections.abc import Mapping
from datetime import date, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from fleetwatch.accounts.models import Team
from fleetwatch.accounts.permissions import Right, needs
from fleetwatch.accounts.selectors import team_choices
from fleetwatch.accounts.visibility import visible_teams
from fleetwatch.budgets import budgets as limits
from fleetwatch.budgets import selectors, unusual
from fleetwatch.budgets.budgets import WHOLE_FLEET, BudgetError, Limit
from fleetwatch.budgets.full_month import FullMonth, full_month
from fleetwatch.budgets.models import Budget
from fleetwatch.budgets.selectors import BudgetLine, Month, MonthLines
from fleetwatch.dashboard.budget_alerts import budget_alerts, unheard
from fleetwatch.dashboard.choices import chosen
from fleetwatch.dashboard.drawing.bars import SpendBar, bar_of
from fleetwatch.dashboard.forecast_apart import forecast_apart
from fleetwatch.dashboard.parameters import takes
from fleetwatch.dashboard.passed_budgets import passed
from fleetwatch.dashboard.period import Period, read_period
from fleetwatch.dashboard.showing import Context, live, page, shows
from fleetwatch.lib.csv_files import amounts
from fleetwatch.lib.intervals import Interval

ANOMALY_DAYS = 30
MAX_ANOMALIES = 20
FORM = "budget"
ALL = "dashboard/budgets.html"


@require_GET
@login_required
@never_cache
@takes("team")
def budgets(request: HttpRequest) -> HttpResponse:
    """All teams, the most pressing first."""
    return live(request, ALL, lambda fresh: _all(request, **fresh.context()))


@require_POST
@needs(Right.MONEY)
@never_cache
def set_budget(request: HttpRequest) -> HttpResponse:
    """One budget more: what the form of all budgets, or of the team's own page, asks for; or the
    same page with what is wrong with it.
    """
    now = read_period(request).now
    slug = request.POST.get("team", "")
    is_own = "own" in request.POST
    try:
        budget = _asked(request.POST)
        limits.set_budget(budget, now=now, by=request.user.get_username())
    except BudgetError as error:
        errors = {error.field: str(error)}
        return _of_team(request, slug, errors) if is_own else _all(request, errors=errors)
    messages.success(request, _done(budget))
    return redirect(_page_of(slug) if is_own else "budgets")


def _asked(sent: Mapping[str, str]) -> Budget:
    """The budget as the form has it, not stored. Raises BudgetError."""
    return Budget(
        team=_team(sent.get("team", "")),
        month=_month(sent.get("month", "")),
        amount=_amount(sent.get("amount", "")),
        repeats="repeats" in sent,
        currency=sent.get("currency", "").strip().upper() or "USD",
    )


def _page_of(slug: str) -> str:
    return reverse("budget", args=[slug]) if slug else reverse("budget_fleet")


def _whose(slug: str = WHOLE_FLEET) -> Team | None:
    """The team; None: the whole fleet. Raises Http404 also for a team that the reader sees not."""
    return None if slug == WHOLE_FLEET else get_object_or_404(visible_teams(), slug=slug)


@never_cache
@shows("dashboard/budget.html", "budgets", find=_whose)
def team_budget(_: HttpRequest, period: Period, team: Team | None) -> Context:
    """One team's month, or the whole fleet's."""
    return _team_page(period, team) | _form({})


def _of_team(request: HttpRequest, slug: str, errors: dict[str, str]) -> HttpResponse:
    """The page of one, with the form as it was sent and what is wrong with it."""
    period = read_period(request)
    context = _team_page(period, _whose(slug)) | _form(errors, request.POST)
    return page(request, period, "dashboard/budget.html", "budgets", context)


def _team_page(period: Period, team: Team | None) -> Context:
    slug = team.slug if team else WHOLE_FLEET
    line = selectors.line_or_run_rate(team, period.now)
    kind = "fleet" if team is None else "team"
    month = selectors.running_month(period.now)
    alerts = budget_alerts(team) if line.limit else []
    return {
        "chart_url": f"{reverse('chart', args=['budget'])}?{urlencode({'team': slug})}",
        "line": line,
        "team": team,
        "alerts": alerts,
        "unheard": unheard([slug] if line.limit else []).get(slug),
        "passed": passed(line, month, alerts),
        "full_month": _full_month(line, month),
        "closest": selectors.closest_trial(line, period.now),
        "month": month,
        **_of_budgets(period, team, line, month),
        **_unusual(period, kind, slug, shown=_anomalies(period, kind=kind, key=slug)),
    }


def _full_month(line: BudgetLine, month: Month) -> FullMonth | None:
    """Of a month that is recorded in part alone: what a forecast of it says is less than a month
    costs.
    """
    if line.recorded_since is None or month.so_far is None or line.unpriced_ms:
        return None
    recorded = Interval(line.recorded_since, month.so_far.end)
    return full_month(line.spent_usd, recorded, month.whole, budget_usd=line.budget_usd)


def _of_budgets(period: Period, team: Team | None, line: BudgetLine, month: Month) -> Context:
    """What months before came to, what budgets were set, and what the fleet's leaves."""
    return {
        "past": selectors.past_months(team, period.now),
        "history": limits.history(team)[:MAX_ANOMALIES],
        **(_for_no_team(line, limits.limits(month.first)) if team is None else {}),
        "months": _months(period),
    }


def _all(
    request: HttpRequest, *, errors: dict[str, str] | None = None, **fresh: Any
) -> HttpResponse:
    period = read_period(request)
    seen = selectors.with_run_rates(selectors.month_lines(period.now), period.now)
    month = selectors.running_month(period.now)
    teams = team_choices()
    team = chosen(request, "team", [slug for slug, _ in teams])
    context = {
        **_of_lines(seen),
        **_few_tries(seen, period),
        **_narrowed(seen, team),
        "month": month,
        "teams": teams,
        "months": _months(period),
        **_unusual_of(period, team),
        **_form(errors or {}, request.POST),
        **fresh,
    }
    return page(request, period, ALL, "budgets", context)


def _narrowed(seen: MonthLines, team: str) -> Context:
    """The filter, and where one team alone is asked for its line."""
    shared: Context = {"filter_names": ["team"], "kept_names": [], "filters": {}}
    if not team:
        return shared
    lines = [_with_bar(line) for line in seen.lines if line.key == team]
    return shared | {"filters": {"team": team}, "lines": lines, "unallocated": None}


def _unusual_of(period: Period, team: str) -> Context:
    """Of the team, or of all where none is asked for."""
    if not team:
        return _unusual(period, "fleet", WHOLE_FLEET, shown=_anomalies(period))
    return _unusual(period, "team", team, shown=_anomalies(period, kind="team", key=team))


def _of_lines(seen: MonthLines) -> Context:
    """The lines, what of the fleet's budget is no team's, and what to say of the forecasts."""
    fleet = seen.lines[0]
    return {
        "lines": list(map(_with_bar, seen.lines)),
        "fleet": fleet,
        "has_budgets": any(line.limit for line in seen.lines),
        "unheard": unheard([line.key for line in seen.lines if _is_spent(line)]),
        "unallocated": seen.unallocated and _with_bar(seen.unallocated),
        "teamless_usd": seen.teamless_usd,
        "lines_expected_usd": forecast_apart(seen),
        **_for_no_team(fleet, {line.key: line.limit for line in seen.lines if line.limit}),
        "recorded_since": fleet.recorded_since,
        "without_forecast": _without_forecast(seen),
        "run_rate": selectors.any_run_rate(seen.lines),
    }


def _few_tries(seen: MonthLines, period: Period) -> Context:
    """On how few days the forecasts of lines were tried, where these are too few to rely on: once
    where the fleet's is such, which has the longest history, or of each line.
    """
    ahead = {line.key: selectors.closest_trial(line, period.now) for line in seen.lines if line.end}
    few = {key: trial.tries for key, trial in ahead.items() if trial and trial.are_few}
    fleet = few.get(WHOLE_FLEET)
    return {"fleet_tries": fleet, "few_tries": {} if fleet else few}


def _is_spent(line: BudgetLine) -> bool:
    return line.share is not None and line.share > 1


def _for_no_team(fleet: BudgetLine, every: Mapping[str, Limit]) -> Context:
    """What the teams' budgets come to, and what of the fleet's they leave for what is no team's;
    nothing where one of the two is not known.
    """
    teams_usd = limits.sum_of_teams(every)
    if teams_usd is None or fleet.budget_usd is None:
        return {}
    return {"teams_budgets_usd": teams_usd, "no_team_budget_usd": fleet.budget_usd - teams_usd}


def _without_forecast(seen: MonthLines) -> list[tuple[str, list[str]]]:
    """Why there is no forecast, and of which lines; nothing where the fleet has none: it says why
    of all.
    """
    if seen.lines[0].end is None:
        return []
    labels: dict[str, list[str]] = {}
    for line in filter(None, [*seen.lines, seen.unallocated]):
        if line.end is None:
            labels.setdefault(line.reason, []).append(line.label)
    return list(labels.items())


def _months(period: Period) -> list[tuple[str, str]]:
    return [(f"{each:%Y-%m}", f"{each:%B %Y}") for each in limits.months(period.now)]


def _with_bar(line: BudgetLine) -> tuple[BudgetLine, SpendBar | None]:
    return line, bar_of(line)


def _unusual(period: Period, kind: str, key: str, *, shown: list[unusual.Seen]) -> Context:
    """The newest anomalies, and of how many days of history they are judged."""
    return {
        "anomalies": shown[:MAX_ANOMALIES],
        "anomalies_left_off": max(0, len(shown) - MAX_ANOMALIES),
        "anomaly_days": ANOMALY_DAYS,
        "known_days": unusual.days_known(period.now, kind=kind, key=key),
        "enough_days": unusual.ENOUGH_DAYS,
    }


def _form(errors: dict[str, str], sent: Mapping[str, str] | None = None) -> Context:
    """The form as it was sent, with what is wrong."""
    return {"action": FORM if errors else "", "sent": sent or {}, "errors": errors}


def _anomalies(
    period: Period, *, kind: str | None = None, key: str | None = None
) -> list[unusual.Seen]:
    last = Interval(period.now - timedelta(days=ANOMALY_DAYS), period.now)
    return unusual.anomalies_of(last, kind=kind, key=key, now=period.now)


def _team(slug: str) -> Team | None:
    if slug == WHOLE_FLEET:
        return None
    team = Team.objects.filter(slug=slug).first()
    if team is None:
        raise BudgetError("There is no such team: choose one of the list.", field="team")
    return team


def _month(text: str) -> date:
    try:
        return date.fromisoformat(f"{text.strip()}-01")
    except ValueError:
        raise BudgetError("Which month? Like 2026-12.", field="month") from None


def _amount(text: str) -> Decimal | None:
    """The amount; None where the field is empty: the budget ends."""
    if not text.strip():
        return None
    amount = amounts.typed(text)
    if amount is None:
        raise BudgetError(
            "A number, please, like 12000 or 12000.50; empty ends the budget.", field="amount"
        )
    return amount


def _done(budget: Budget) -> str:
    team = budget.team
    whose = "the whole fleet" if team is None else team.label
    if budget.amount is None:
        return f"The budget of {whose} ends from {budget.month:%B %Y}."
    return f"The budget of {whose} for {budget.month:%B %Y} is set."
