"""Reports: the months, one report, its files; and "compute now" for admins."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import cache_control, never_cache
from django.views.decorators.http import require_GET, require_POST

from fleetwatch.accounts.models import Team
from fleetwatch.accounts.permissions import Right, needs
from fleetwatch.accounts.selectors import zone
from fleetwatch.accounts.visibility import sight
from fleetwatch.dashboard.digest_fixes import digest_fixes
from fleetwatch.dashboard.invoice_lines import above_contract_usd
from fleetwatch.dashboard.month_rows import month_rows
from fleetwatch.dashboard.parameters import takes, takes_only
from fleetwatch.dashboard.report_pages import (
    LINES_ON_PAPER,
    burn_of,
    report_context,
    trend_of,
    wasted_usd_of,
)
from fleetwatch.dashboard.showing import CSV, XLSX, existing, file, live
from fleetwatch.dashboard.team_waste import fleet_waste, team_waste
from fleetwatch.figures.pricing import exact_sum
from fleetwatch.finance import reconciliation
from fleetwatch.lib import timeframes
from fleetwatch.lib.intervals import Interval, to_ms
from fleetwatch.reports import download, monthly, selectors, team_months
from fleetwatch.reports.digest import TEAMS, footnotes
from fleetwatch.reports.models import Invoice, Report
from fleetwatch.reports.months import in_words, name_at
from fleetwatch.reports.selectors import MonthLine, figures
from fleetwatch.reports.statement import amount_or_none

# kept by the reader's browser alone, which asks before it shows it again
OWN = cache_control(private=True, no_cache=True)
MAX_DIGESTS = 12
MAX_STATEMENTS = 200


def _provider(shown: Report) -> dict[str, Any] | None:
    """What the provider billed for the month of the fleet's report, and what of it is above
    contract; None of a team's statement, and where no invoice is imported.
    """
    month = f"{shown.content['month']}"
    if "team" in shown.content or not Invoice.objects.filter(month=month).exists():
        return None
    reconciled = reconciliation.reconciliation(month, now=timezone.now())
    return {
        "billed_usd": reconciled.total.billed_usd,
        "above_usd": above_contract_usd(reconciled.lines),
    }


def _xlsx(shown: Report) -> bytes:
    provider = _provider(shown)
    if provider is None:
        return download.xlsx(shown)
    above_usd = provider["above_usd"]
    facts = [
        ("Billed by invoices, as imported until now", provider["billed_usd"]),
        *([("Of that, above contract", above_usd)] if above_usd else []),
    ]
    return download.xlsx(shown, invoiced=facts)


# name in the address -> how its content is made, and what it is
FILES: dict[str, tuple[Callable[[Report], str | bytes], str, str]] = {
    "csv": (download.csv, CSV, "csv"),
    "xlsx": (_xlsx, XLSX, "xlsx"),
    "focus": (download.focus, CSV, "focus-1.2.csv"),
    "focus-days": (partial(download.focus, by_day=True), CSV, "focus-1.2-days.csv"),
}


@require_GET
@login_required
@never_cache
@takes()
def reports(request: HttpRequest) -> HttpResponse:
    """Each month's reports; to who does not see everything, the statements of his teams."""
    template = f"dashboard/{'reports' if sight() is None else 'own_statements'}.html"
    return live(
        request, template, lambda fresh: render(request, template, _all(request) | fresh.context())
    )


def _all(request: HttpRequest) -> dict[str, Any]:
    """Every month's, or the statements of the reader's teams."""
    if sight() is None:
        months_of = _months(request)
        return months_of | _month_statements(months_of["months"]) | _digests()
    statements = [(name_at(each.start, zone()), each) for each in selectors.own_statements()]
    shown = {"page": "reports", "zone": zone(), "now": timezone.now()}
    return {**shown, "statements": statements, **_digests()}


@require_GET
@login_required
@never_cache
@takes_only()
def months(request: HttpRequest) -> HttpResponse:
    """The table of months alone, while something is computed."""
    return render(request, "dashboard/_report_months.html", _months(request))


@require_POST
@needs(Right.MONEY)
def compute(request: HttpRequest) -> HttpResponse:
    name = request.POST.get("month", "")[:20]
    try:
        monthly.ask(name, now=timezone.now(), by=request.user.get_username())
    except ValueError as error:
        messages.error(request, f"This month can't be computed: {error}.")
    return redirect("reports")


@require_POST
@needs(Right.MONEY)
def stop(request: HttpRequest) -> HttpResponse:
    """Stops the computation of a month; what was computed stays."""
    name = request.POST.get("month", "")[:20]
    if monthly.stop(name, now=timezone.now(), by=request.user.get_username()):
        messages.success(request, f"{name} is stopped; what was computed stays.")
    else:
        messages.error(request, "Nothing of that month is computed now.")
    return redirect("reports")


@require_GET
@login_required
@OWN
@takes()
def report(request: HttpRequest, pk: int) -> HttpResponse:
    """A team's statement, the fleet's report, or a weekly digest."""
    digest = selectors.weekly_digest(pk)
    if digest is not None:
        return render(request, "dashboard/digest.html", _digest(digest))
    shown = existing(selectors.report(pk))
    context = report_context(shown)
    context |= {"provider": _provider(shown), **_last_digest(shown), **_why_fleet(shown, context)}
    return render(request, "dashboard/report.html", context)


def _why_fleet(shown: Report, context: Mapping[str, Any]) -> dict[str, Any]:
    """Of the fleet's report what each cause took of its waste."""
    if "team" in shown.content:
        return {}
    interval = Interval(shown.start, shown.end)
    return fleet_waste(interval, context["content"]["total"], timezone.now())


def _last_digest(shown: Report) -> dict[str, Any]:
    """The newest digest of the fleet's week, beside the fleet's report."""
    if "team" in shown.content:
        return {}
    fleets = (each for each in selectors.digests(MAX_DIGESTS) if not each.subject)
    return {"last_digest": next(fleets, None)}


@require_GET
@login_required
@OWN
@takes()
def report_print(request: HttpRequest, pk: int) -> HttpResponse:
    """The same on white paper, A4."""
    statement = existing(selectors.report(pk))
    shown = report_context(statement, size=LINES_ON_PAPER)
    paper = {
        "is_paper": True,
        "approval": selectors.approval_of(statement),
        "provider": _provider(statement),
        **_why_fleet(statement, shown),
    }
    return render(
        request, "dashboard/report_print.html", shown | paper | _of_team_on_paper(statement, shown)
    )


def _of_team_on_paper(statement: Report, shown: dict[str, Any]) -> dict[str, Any]:
    """Of a team's statement why it was wasted, its months and its days added up; nothing of what is
    no team's.
    """
    team = Team.objects.filter(slug=statement.subject).first()
    if team is None:
        return {}
    interval = Interval(statement.start, statement.end)
    month = statement.content["month"]
    return {
        "team": team,
        "month": month,
        **team_waste(team, interval, timezone.now(), zone(), version_usd=wasted_usd_of(shown)),
        **trend_of(team_months.newest(team.slug), month),
        **burn_of(team, interval, budget_usd=_budget_usd(statement)),
    }


def _budget_usd(statement: Report) -> Decimal | None:
    budget = statement.content.get("budget") or {}
    usd: Decimal | None = amount_or_none(budget.get("budget_usd"))
    return usd


@require_GET
@login_required
@takes_only()
def report_file(request: HttpRequest, pk: int, name: str) -> HttpResponse:
    make, content_type, ending = existing(FILES.get(name))
    report = existing(selectors.report(pk))
    name = f"{download.name(report)}.{ending}"
    of = Interval(report.start, report.end)
    return file(request, make(report), name, of=of, content_type=content_type)


def _month_statements(lines: Sequence[MonthLine]) -> dict[str, Any]:
    """The statements of the newest month that is over and computed, else of the running one."""
    newest = selectors.shown_month(lines, timezone.now())
    if newest is None or newest.fleet is None:
        return {}
    statements = team_months.lines_of(newest.fleet.start)
    return {
        "month_of": newest.name,
        "month_in_words": in_words(newest.name),
        "fleet_pk": newest.fleet.pk,
        "approved": sum(bool(line.approved_by) for line in statements),
        "max_statements": f":{MAX_STATEMENTS}",
        "judged": (),
        **month_rows(newest.fleet, statements),
    }


def _digests() -> dict[str, Any]:
    return {"digests": selectors.digests(MAX_DIGESTS)}


def _digest(report: Report) -> dict[str, Any]:
    """A digest as it was sent."""
    content = report.content
    message = content["message"]
    local = ZoneInfo(content["zone"])
    head, *rows = message["rows"] or [[]]
    return {
        "page": "reports",
        "report": report,
        "content": content,
        "message": message,
        "head": head,
        "rows": [
            (list(zip(head, row, strict=True)), job)
            for row, job in zip(rows, _jobs_of(content), strict=False)
        ],
        "fixes": digest_fixes(content["causes"]),
        **_teams_of(content),
        "footnotes": footnotes(message["text"], content["causes"]),
        "days": timeframes.in_words(report.start, report.end, local),
        "period": f"?from={to_ms(report.start)}&to={to_ms(report.end)}",
    }


def _teams_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """The teams as rows, older digests have none, their sum, and the fields beside them."""
    teams = figures(content.get("teams", []))
    fields = content["message"]["fields"]
    return {
        "teams": teams,
        "teams_total": {
            name: exact_sum(team[name] for team in teams) for name in ("cost_usd", "wasted_usd")
        },
        "fields": [field for field in fields if field[0] != TEAMS],
    }


def _jobs_of(content: Mapping[str, Any]) -> list[str]:
    """The job of each cause of a digest; "" = it is a machine's."""
    return [cause.get("job", "") for cause in content["causes"]]


def _months(request: HttpRequest) -> dict[str, Any]:
    lines = selectors.month_lines(timezone.now())
    return {
        "page": "reports",
        "zone": zone(),
        "now": timezone.now(),
        "months": lines,
        "is_computing": any(line.is_open for line in lines),
    }
