"""The waste report: who wasted how much in a period."""

from dataclasses import replace
from decimal import Decimal
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET

from fleetwatch.costs.sites import energy
from fleetwatch.costs.spreading import EVEN, OWN_LINE, PROPORTIONAL, with_free
from fleetwatch.dashboard import selectors
from fleetwatch.dashboard.adjusted import adjusted
from fleetwatch.dashboard.breakdown_totals import together
from fleetwatch.dashboard.choices import LONGEST, chosen
from fleetwatch.dashboard.parameters import (
    PERIOD,
    SUBJECTS,
    filtered,
    refused,
    takes,
    takes_only,
)
from fleetwatch.dashboard.period import read_period
from fleetwatch.diagnosis.findings.machine_findings import progress
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.ranking import Rest
from fleetwatch.figures.selectors import Group, Look
from fleetwatch.figures.totals import nothing
from fleetwatch.reports.selectors import by_cause, waste_rows
from fleetwatch.reports.waste import to_csv

GROUPS = {
    "team": "Team",
    "project": "Project",
    "cost_centre": "Cost centre",
    "user": "User",
    "job": "Job",
    "node": "Node",
    "gpu_model": "GPU model",
    "cause": "Cause",
}
MAX_LINES = 200
IDLE_OR_STALLED = ("idle", "stalled")  # what is drawn for nothing
PAYERS = ("team", "project", "cost_centre", "user")  # over whom free capacity can be spread
SPREAD = {OWN_LINE: "Free apart", PROPORTIONAL: "Free in proportion", EVEN: "Free evenly"}


@require_GET
@login_required
@takes("group_by", *SUBJECTS, "free", *PERIOD)
def waste(request: HttpRequest) -> HttpResponse:
    if not selectors.has_data():
        return redirect("welcome")
    period = read_period(request)
    group_by = chosen(request, "group_by", GROUPS, default="team")
    scope, filters = filtered(request)
    seen = costs.look(period.interval, *({group_by, "node"} - {"cause"}), scope=scope)
    totals = seen.totals()
    if group_by == "cause":
        lines, rest = by_cause(period.interval, scope, totals), Rest(0, nothing())
    else:
        lines, rest = _lines(seen, group_by)
    way = _way_of_free(request, group_by)
    context = {
        "groups": GROUPS.items(),
        "group_by": group_by,
        "group_label": GROUPS[group_by],
        "lines": lines[:MAX_LINES],
        "rest": rest,
        "owners": selectors.owners((line.key for line in lines), before=period.interval.end)
        if group_by == "job"
        else {},
        "payers": PAYERS,
        "spread": SPREAD.items() if group_by in PAYERS else [],
        "free": way,
        "with_free": (spread := with_free(lines, way) if way != OWN_LINE else {}),
        "rest_with_free": sum((spread[line.key] for line in lines[MAX_LINES:]), Decimal(0))
        if spread
        else None,
        "all_with_free": sum(spread.values(), Decimal(0)) if spread else None,
        "totals": totals,
        "adjusted": None if filters else adjusted(period.interval, totals.cost_usd),
        "progress": progress(period.interval, now=period.now) if group_by == "cause" else None,
        "energy": energy(
            period.interval,
            scope=replace(scope, states=IDLE_OR_STALLED),
            by_node=seen.within(IDLE_OR_STALLED).by("node"),
        ),
        "filters": filters,
        "kept": _more({name: value for name, value in filters.items() if name != group_by}),
        "kept_all": _more(filters),
        "csv_url": _csv_url(period.timeframe.query, group_by, filters),
    }
    return render(request, "dashboard/waste.html", period.context("waste", **context))


def _way_of_free(request: HttpRequest, group_by: str) -> str:
    """Where free capacity stands; an address that would spread it over other lines than payers' is
    told so.
    """
    if group_by in PAYERS:
        return chosen(request, "free", SPREAD, default=OWN_LINE)
    if request.GET.get("free", OWN_LINE) not in ("", OWN_LINE):
        payers = ", ".join(PAYERS)
        messages.error(request, f"`free` is for lines by {payers}: by {group_by} it is apart.")
    return OWN_LINE


def _lines(seen: Look, group_by: str) -> tuple[list[Group], Rest]:
    """All lines, of jobs the first; and those that the page leaves off."""
    if group_by == "job":
        jobs = seen.ranked(group_by, MAX_LINES)
        return jobs.groups, jobs.after
    lines = seen.by(group_by)
    left = lines[MAX_LINES:]
    return lines, Rest(len(left), together([line.totals for line in left]))


def _more(filters: dict[str, str]) -> str:
    """The filters as further parameters of a link."""
    return f"&{urlencode(filters)}" if filters else ""


def _csv_url(period: str, group_by: str, filters: dict[str, str]) -> str:
    """Where the same lines are as CSV."""
    return f"{reverse('waste_csv')}?{period}&{urlencode({'group_by': group_by} | filters)}"


@require_GET
@login_required
@takes_only("group_by", *SUBJECTS, *PERIOD)
def waste_csv(request: HttpRequest) -> HttpResponse:
    """The report as CSV: every line, exact."""
    period = read_period(request, is_page=False)
    group_by = request.GET.get("group_by") or "team"
    if group_by not in GROUPS:
        return refused(
            f"There is no `group_by` {group_by[:LONGEST]!r}; there are {', '.join(GROUPS)}."
        )
    scope, _ = filtered(request)
    response = HttpResponse(
        to_csv(waste_rows(period.so_far, group_by, scope=scope)),
        content_type="text/csv; charset=utf-8",
    )
    response["Content-Disposition"] = f'attachment; filename="fleetwatch-waste-by-{group_by}.csv"'
    return response
