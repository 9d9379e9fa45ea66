"""What a statement or the fleet's report shows, on its page and on paper."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.urls import reverse

from fleetwatch.accounts.selectors import zone
from fleetwatch.costs.spreading import EVEN, PROPORTIONAL
from fleetwatch.figures.totals import WHY
from fleetwatch.reports import drawn, selectors
from fleetwatch.reports.models import Report
from fleetwatch.reports.months import days_of

MAX_SAVINGS = 15
MAX_LINES = 200  # on the page; all of them are in the files
SPREAD = {PROPORTIONAL: "over the teams by their dollars", EVEN: "evenly over the teams"}


def report_context(report: Report, *, lines: int | None) -> dict[str, Any]:
    """What a report shows; with a number of `lines` no more of them, and the first savings."""
    content = selectors.figures(report.content)
    return {
        "page": "reports",
        "zone": zone(),
        "report": report,
        "content": content,
        "title": content["team"]["name"] if "team" in content else "Fleet",
        "days": days_of(report.start, report.end, zone()),
        "compared_days": _compared_days(content["compared_with"]),
        "period": f"?from={content['from']}&to={content['to']}",
        # older reports have neither
        "energy": drawn.read(content["energy"]) if "energy" in content else None,
        "free_way": SPREAD.get(content["free"]["way"], "") if "free" in content else None,
        "versions": selectors.versions(report),
        "team_address": _team_address(content),
        **_kin(report, is_fleets="teams" in content),
        **_listed(content, lines),
    }


def _team_address(content: Mapping[str, Any]) -> str:
    """The page of the team's month; "" of the fleet, and of jobs that no team has."""
    team = content.get("team")
    if team is None or team["slug"] in WHY:
        return ""
    return reverse("team_statement", args=[team["slug"], content["month"]])


def _kin(report: Report, *, is_fleets: bool) -> dict[str, Any]:
    """The fleet's report of the month, and beside that one the teams' statements."""
    if is_fleets:
        return {"fleet": report, "statements": selectors.statements(report)}
    return {"fleet": selectors.fleet_of(report), "statements": {}}


def _compared_days(compared: Mapping[str, str]) -> str:
    start, end = (datetime.fromisoformat(compared[end]) for end in ("from", "to"))
    return days_of(start, end, zone())


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
