"""Reports: the months, one report, its files; and "compute now" for admins."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from fleetwatch.accounts.permissions import Right, needs
from fleetwatch.accounts.selectors import zone
from fleetwatch.accounts.visibility import sight
from fleetwatch.costs.spreading import EVEN, PROPORTIONAL
from fleetwatch.dashboard.parameters import takes, takes_only
from fleetwatch.dashboard.showing import CSV, XLSX, existing, file
from fleetwatch.lib.intervals import Interval, to_ms
from fleetwatch.reports import download, drawn, monthly, selectors
from fleetwatch.reports.models import Report
from fleetwatch.reports.months import name_at

MAX_SAVINGS = 15
MAX_DIGESTS = 12
MAX_LINES = 200  # on the page; all of them are in the files
# name in the address -> how its content is made, and what it is
FILES: dict[str, tuple[Callable[[Report], str | bytes], str, str]] = {
    "csv": (download.csv, CSV, "csv"),
    "xlsx": (download.xlsx, XLSX, "xlsx"),
    "focus": (download.focus, CSV, "focus-1.2.csv"),
}

SPREAD = {PROPORTIONAL: "over the teams by their dollars", EVEN: "evenly over the teams"}


@require_GET
@login_required
@never_cache
@takes()
def reports(request: HttpRequest) -> HttpResponse:
    """Each month's reports; to who does not see everything, the statements of his teams."""
    if sight() is None:
        return render(request, "dashboard/reports.html", _months(request) | _digests())
    statements = [(name_at(each.start, zone()), each) for each in selectors.own_statements()]
    own = {"page": "reports", "zone": zone(), "statements": statements, **_digests()}
    return render(request, "dashboard/own_statements.html", own)


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


@require_GET
@login_required
@takes()
def report(request: HttpRequest, pk: int) -> HttpResponse:
    """A team's statement, the fleet's report, or a weekly digest."""
    digest = selectors.weekly_digest(pk)
    if digest is not None:
        return render(request, "dashboard/digest.html", _digest(digest))
    return render(
        request, "dashboard/report.html", _context(existing(selectors.report(pk)), lines=MAX_LINES)
    )


@require_GET
@login_required
@takes()
def report_print(request: HttpRequest, pk: int) -> HttpResponse:
    """The whole report on white paper, A4."""
    return render(
        request, "dashboard/report_print.html", _context(existing(selectors.report(pk)), lines=None)
    )


@require_GET
@login_required
@takes_only()
def report_file(request: HttpRequest, pk: int, name: str) -> HttpResponse:
    make, content_type, ending = existing(FILES.get(name))
    report = existing(selectors.report(pk))
    name = f"{download.name(report)}.{ending}"
    of = Interval(report.start, report.end)
    return file(request, make(report), name, of=of, content_type=content_type)


def _digests() -> dict[str, Any]:
    return {"digests": selectors.digests(MAX_DIGESTS)}


def _digest(report: Report) -> dict[str, Any]:
    """A digest as it was sent."""
    content = report.content
    message = content["message"]
    local = ZoneInfo(content["zone"])
    return {
        "page": "reports",
        "report": report,
        "content": content,
        "message": message,
        "head": message["rows"][:1],
        "rows": message["rows"][1:],
        "days": _days(report.start, report.end, local),
        "period": f"?from={to_ms(report.start)}&to={to_ms(report.end)}",
    }


def _months(request: HttpRequest) -> dict[str, Any]:
    lines = selectors.month_lines(timezone.now())
    return {
        "page": "reports",
        "zone": zone(),
        "months": lines,
        "is_computing": any(line.is_open for line in lines),
    }


def _context(report: Report, *, lines: int | None) -> dict[str, Any]:
    """What a report shows; with a number of `lines` no more of them, and the first savings."""
    content = selectors.figures(report.content)
    return {
        "page": "reports",
        "zone": zone(),
        "report": report,
        "content": content,
        "title": content["team"]["name"] if "team" in content else "Fleet",
        "days": _days(report.start, report.end, zone()),
        "compared_days": _compared_days(content["compared_with"]),
        "period": f"?from={content['from']}&to={content['to']}",
        # older reports have neither
        "energy": drawn.read(content["energy"]) if "energy" in content else None,
        "free_way": SPREAD.get(content["free"]["way"], "") if "free" in content else None,
        "versions": selectors.versions(report),
        **_kin(report, is_fleets="teams" in content),
        **_listed(content, lines),
    }


def _kin(report: Report, *, is_fleets: bool) -> dict[str, Any]:
    """The fleet's report of the month, and beside that one the teams' statements."""
    if is_fleets:
        return {"fleet": report, "statements": selectors.statements(report)}
    return {"fleet": selectors.fleet_of(report), "statements": {}}


def _compared_days(compared: Mapping[str, str]) -> str:
    start, end = (datetime.fromisoformat(compared[end]) for end in ("from", "to"))
    return _days(start, end, zone())


def _listed(content: Mapping[str, Any], size: int | None) -> dict[str, Any]:
    """So many lines at most, and with a `size` the first savings; and how many are left off."""
    lines = content.get("lines", [])
    savings = content.get("savings", [])
    max_savings = MAX_SAVINGS if size else len(savings)
    return {
        "lines": lines[:size],
        "left_off": len(lines) - len(lines[:size]),
        "savings": savings[:max_savings],
        "savings_left_off": max(0, len(savings) - max_savings),
    }


def _days(start: datetime, end: datetime, local: ZoneInfo) -> str:
    """From its first to its last day there."""
    first = start.astimezone(local)
    last = end.astimezone(local) - timedelta(seconds=1)
    month = "" if first.month == last.month else " %B"
    return f"{first:%-d{month}} to {last:%-d %B %Y}"
