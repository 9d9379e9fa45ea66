"""What a statement or the fleet's report shows, on its page and on paper."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.urls import reverse

from fleetwatch.accounts.selectors import zone
from fleetwatch.costs.spreading import EVEN, PROPORTIONAL
from fleetwatch.figures import pricing
from fleetwatch.figures.totals import WHY
from fleetwatch.reports import drawn, printed, selectors, statement
from fleetwatch.reports.models import Report
from fleetwatch.reports.months import days_of, in_words
from fleetwatch.reports.statement import Shape

MAX_SAVINGS = 15
MAX_LINES = 50  # on the page and on paper; all of them are in the files
SPREAD = {PROPORTIONAL: "over the teams by their dollars", EVEN: "evenly over the teams"}


def report_context(report: Report) -> dict[str, Any]:
    """What a report shows: its dearest lines, what the others come to, the first savings."""
    content = _printed(selectors.figures(report.content))
    return {
        "page": "reports",
        "zone": zone(),
        "report": report,
        "content": content,
        "title": content["team"]["name"] if "team" in content else "Fleet",
        "month_in_words": in_words(content["month"]),
        "days": days_of(report.start, report.end, zone()),
        "compared_days": _compared_days(content["compared_with"]),
        "period": f"?from={content['from']}&to={content['to']}",
        # older reports have neither
        "energy": drawn.read(content["energy"]) if "energy" in content else None,
        "free_way": SPREAD.get(content["free"]["way"], "") if "free" in content else None,
        "versions": selectors.versions(report),
        "team_address": _team_address(content),
        **_kin(report, is_fleets="teams" in content),
        **_listed(content),
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


def _printed(content: Shape) -> Shape:
    """The content with what of it is printed: rows that sum to the totals beside them."""
    whole = printed.total(content["total"])
    cost_usd = whole["printed"]["cost_usd"]
    compared = content["comparison"]
    is_fleets = "teams" in content
    return content | {
        "total": whole,
        "comparison": compared and printed.comparison(compared, cost_usd),
        **(_fleets_rows(content, whole) if is_fleets else {}),
        **({} if is_fleets else {"users": printed.rows(content["users"], whole)}),
        **{
            owners: printed.rows(content[owners], None if is_fleets else whole)
            for owners in ("projects", "cost_centres")
        },
        **_beside(content, cost_usd),
        **({"free": _free(content["free"])} if "free" in content else {}),
    }


def _free(free: Shape) -> Shape:
    """Of each team, or of the one, its part of the free capacity: what leads from its cost to the
    sum of both.
    """
    if "teams" in free:
        return free | {"teams": list(map(printed.with_part, free["teams"]))}
    return printed.with_part(free)


def _fleets_rows(content: Shape, whole: Shape) -> Shape:
    """A team's row is what its statement prints, as far as own lines can take what that leaves."""
    teams = content["teams"]
    rows = printed.rows([*teams, *content["own_lines"]], whole, firm=len(teams))
    return {"teams": rows[: len(teams)], "own_lines": rows[len(teams) :]}


def _beside(content: Shape, cost_usd: Decimal) -> Shape:
    """Adjustments lead from the cost to the adjusted one, commitments and booked differences from
    there to what was paid.
    """
    adjusted_usd = pricing.usd(content["adjusted_usd"], pricing.CENT)
    adjustments = printed.one_column(content["adjustments"], "cost_usd", cost_usd, adjusted_usd)
    shown = {"adjusted_usd": adjusted_usd, "adjustments_usd": adjusted_usd - cost_usd}
    if "paid_usd" not in content:
        return {"adjustments": adjustments, "printed": shown}
    commitments = content["commitments"]
    booked = [line | {"missing_usd": line["cost_usd"]} for line in content["invoice_lines"]]
    paid_usd = pricing.usd(content["paid_usd"], pricing.CENT)
    lines = printed.one_column([*commitments, *booked], "missing_usd", adjusted_usd, paid_usd)
    return {
        "adjustments": adjustments,
        "commitments": lines[: len(commitments)],
        "invoice_lines": lines[len(commitments) :],
        "printed": shown | {"paid_usd": paid_usd},
    }


def _listed(content: Shape) -> dict[str, Any]:
    """The dearest lines, and as one what the others come to; the first savings."""
    lines = content.get("lines", [])
    left = lines[MAX_LINES:]
    rest = [statement.together(left)] if left else []
    rows = printed.rows([*lines[:MAX_LINES], *rest], content["total"])
    savings = content.get("savings", [])
    return {
        "lines": rows[:MAX_LINES],
        "rest": rows[-1] if rest else None,
        "left_off": len(left),
        "savings": printed.wasters(savings[:MAX_SAVINGS]),
        "savings_left_off": max(0, len(savings) - MAX_SAVINGS),
    }
