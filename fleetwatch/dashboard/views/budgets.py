"""Budgets: every team's month against what it may spend; one team's; and what was unusual."""

from datetime import date, timedelta
from decimal import Decimal
from typing import Any, cast
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from fleetwatch.accounts.models import Team, User
from fleetwatch.accounts.permissions import admin_required, can_administer
from fleetwatch.budgets import budgets as limits
from fleetwatch.budgets import selectors, unusual
from fleetwatch.budgets.budgets import WHOLE_FLEET, BudgetError
from fleetwatch.dashboard.bars import spend_bar
from fleetwatch.dashboard.parameters import takes
from fleetwatch.dashboard.period import Period, read_period
from fleetwatch.lib import amounts
from fleetwatch.lib.intervals import Interval

MAX_CHOICES = 500  # teams offered in the form
ANOMALY_DAYS = 30
MAX_ANOMALIES = 20
FORM = "budget"


@require_GET
@login_required
@never_cache
@takes()
def budgets(request: HttpRequest) -> HttpResponse:
    """All teams, the most pressing first."""
    return _all(request)


@require_POST
@admin_required
@never_cache
def set_budget(request: HttpRequest) -> HttpResponse:
    """One budget more: what the form asks for, or what is wrong with it."""
    period, sent = read_period(request), request.POST
    try:
        team, month, amount = (
            _team(sent.get("team", "")),
            _month(sent.get("month", "")),
            _amount(sent.get("amount", "")),
        )
        limits.set_budget(
            team,
            month,
            amount,
            repeats="repeats" in sent,
            currency=sent.get("currency", "").strip().upper() or "USD",
            now=period.now,
            by=cast("User", request.user).get_username(),
        )
    except BudgetError as error:
        return _all(request, sent=sent.dict(), errors={error.field: str(error)}, status=422)
    messages.success(request, _done(team, month, amount))
    return redirect("budgets")


@require_GET
@login_required
@never_cache
@takes()
def team_budget(request: HttpRequest, slug: str = WHOLE_FLEET) -> HttpResponse:
    """One team's month, or the whole fleet's."""
    period = read_period(request)
    team = None if slug == WHOLE_FLEET else Team.objects.filter(slug=slug).first()
    if team is None and slug != WHOLE_FLEET:
        raise Http404(slug)
    line = selectors.line(team, period.now)
    kind = "fleet" if team is None else "team"
    context = {
        "chart_url": f"{reverse('chart', args=['budget'])}?{urlencode({'team': slug})}",
        "line": line,
        "closest": selectors.closest_trial(line, period.now),
        "month": selectors.running_month(period.now),
        "past": selectors.past_months(team, period.now),
        "history": limits.history(team)[:MAX_ANOMALIES],
        "anomalies": _anomalies(period, kind=kind, key=slug)[:MAX_ANOMALIES],
        "anomaly_days": ANOMALY_DAYS,
    }
    return render(request, "dashboard/budget.html", period.context("budgets", **context))


def _all(
    request: HttpRequest,
    *,
    sent: dict[str, str] | None = None,
    errors: dict[str, str] | None = None,
    status: int = 200,
) -> HttpResponse:
    period = read_period(request)
    lines = selectors.lines(period.now)
    found = _anomalies(period)
    context: dict[str, Any] = {
        "lines": [(line, spend_bar(line.spent_usd, line.budget_usd, line.end)) for line in lines],
        "has_budgets": any(line.limit for line in lines),
        "month": selectors.running_month(period.now),
        "is_admin": can_administer(request.user),
        "teams": Team.objects.order_by("slug")[:MAX_CHOICES],
        "months": limits.months(period.now),
        "anomalies": found[:MAX_ANOMALIES],
        "anomalies_left_off": max(0, len(found) - MAX_ANOMALIES),
        "anomaly_days": ANOMALY_DAYS,
        "form": FORM,
        "action": FORM if errors else "",
        "sent": sent or {},
        "errors": errors or {},
    }
    return render(
        request, "dashboard/budgets.html", period.context("budgets", **context), status=status
    )


def _anomalies(
    period: Period, *, kind: str | None = None, key: str | None = None
) -> list[unusual.Seen]:
    last = Interval(period.now - timedelta(days=ANOMALY_DAYS), period.now)
    return unusual.anomalies_of(last, kind=kind, key=key, now=period.now)


def _team(slug: str) -> Team | None:
    if slug == WHOLE_FLEET:
        return None
    found = Team.objects.filter(slug=slug.replace("\x00", "")).first()
    if found is None:
        raise BudgetError("There is no such team: choose one of the list.", field="team")
    return found


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


def _done(team: Team | None, month: date, amount: Decimal | None) -> str:
    whose = "the whole fleet" if team is None else team.name or team.slug
    verb = "ends" if amount is None else "is set"
    return (
        f"The budget of {whose} {verb} from {month:%B %Y}."
        if amount is None
        else f"The budget of {whose} for {month:%B %Y} {verb}."
    )
