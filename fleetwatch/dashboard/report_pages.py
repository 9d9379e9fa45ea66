"""What a statement or the fleet's report shows, on its page and on paper."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import accumulate, dropwhile
from typing import Any

from django.urls import reverse
from django.utils import timezone

from fleetwatch.accounts.models import Team
from fleetwatch.accounts.selectors import zone
from fleetwatch.budgets import month_end
from fleetwatch.costs.spreading import EVEN, PROPORTIONAL
from fleetwatch.dashboard import numbers
from fleetwatch.dashboard.drawing.curve_svg import Value, curve
from fleetwatch.diagnosis.models import Finding
from fleetwatch.figures import pricing
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.totals import WHY, Bucket, Scope
from fleetwatch.lib import timeframes
from fleetwatch.lib.intervals import Interval
from fleetwatch.reports import drawn, printed, selectors, team_months
from fleetwatch.reports.advised import Advised, advised
from fleetwatch.reports.models import Report
from fleetwatch.reports.months import in_words
from fleetwatch.reports.printed_content import printed_content, printed_lines
from fleetwatch.reports.statement import Shape
from fleetwatch.reports.team_months import TeamMonth

MAX_SAVINGS = 15
LINES_ON_PAGE = 15
HOUR_PLACES = 4  # of GPU-hours that stand to be multiplied
RATE_PLACES = 4  # a rate with more is an average of several
MOST_POINTS = 10  # of the curve on paper: more labels cover each other
LINES_ON_PAPER = 50  # all of them are in the files
DECIDED = (Finding.Status.ACCEPTED, Finding.Status.DISMISSED, Finding.Status.FIXED)
MICROSECOND = timedelta(microseconds=1)
SPREAD = {PROPORTIONAL: "over the teams by their dollars", EVEN: "evenly over the teams"}


def report_context(report: Report, *, size: int = LINES_ON_PAGE) -> dict[str, Any]:
    """What a report shows: its dearest `size` lines, what the others come to, the first savings
    with their causes.
    """
    content = printed_content(selectors.figures(report.content))
    return {
        "page": "reports",
        "zone": zone(),
        "report": report,
        "content": content,
        "title": content["team"]["name"] if "team" in content else "Fleet",
        "month_in_words": in_words(content["month"]),
        "is_to_date": selectors.is_to_date(report),
        **_periods(report, content),
        **_versions(report, content),
        # older reports have neither
        "energy": drawn.read(content["energy"]) if "energy" in content else None,
        "free_way": SPREAD.get(content["free"]["way"], "") if "free" in content else None,
        "team_address": _team_address(content),
        **_kin(report, is_fleets="teams" in content),
        **_listed(content, size),
        **_rate_lines(content),
        **_why(report, content),
        "own_lines": _by_state(content.get("own_lines", [])),
    }


def wasted_usd_of(context: Mapping[str, Any]) -> Decimal:
    """What a report prints as wasted."""
    wasted_usd: Decimal = context["content"]["total"]["printed"]["wasted_usd"]
    return wasted_usd


def trend_of(every: list[TeamMonth], month: str) -> dict[str, Any]:
    """What the team's months up to this one came to, and their sum."""
    trend = team_months.trend(every, month)
    total = {name: printed.cents_of(trend, name) for name in ("cost_usd", "wasted_usd")}
    largest_usd = max((each.cost_usd for each in trend), default=0)
    return {"trend": trend, "trend_total": total, "largest_usd": largest_usd}


def burn_of(team: Team, interval: Interval, *, budget_usd: Decimal | None) -> dict[str, Any]:
    """The team's dollars added up to the end of some of the days, from the first that has anything
    recorded on, under its budget; empty where it spent nothing.
    """
    days = costs.dollars_over_time(interval, "day", scope=Scope(team=team.slug))
    recorded = [*dropwhile(lambda day: not day.totals.capacity_ms, days)]
    sums = list(accumulate(day.totals.cost_usd for day in recorded))
    if not sums or not sums[-1]:
        return {}
    limit = None if budget_usd is None else (float(budget_usd), f"budget {numbers.usd(budget_usd)}")
    return {"burn": curve(_values([*map(_day, recorded)], sums), limit=limit)}


def _values(days: Sequence[str], sums: Sequence[Decimal]) -> list[Value]:
    """0 at the first day's begin, and what was added up at the end of some of the days."""
    apart = -(-len(sums) // MOST_POINTS)
    every = enumerate(zip([days[0], *days], [Decimal(0), *sums], strict=True))
    return [
        Value(place, float(usd), numbers.usd(usd), day)
        for place, (day, usd) in every
        if place % apart == 0 or place == len(sums)
    ]


def _day(bucket: Bucket) -> str:
    return f"{bucket.start.astimezone(zone()):%-d %b}"


def _periods(report: Report, content: Mapping[str, Any]) -> dict[str, Any]:
    """The report's days, the last of them and those it is compared with in words, its period for
    links, and since when there are figures, where that is later.
    """
    return {
        "days": timeframes.in_words(report.start, report.end, zone()),
        "compared_days": _compared_days(content["compared_with"]),
        "period": f"?from={content['from']}&to={content['to']}",
        "last_day": f"{(report.end - MICROSECOND).astimezone(zone()):%-d %b}",
        "recorded_since": _recorded_since(report, content),
    }


def _versions(report: Report, content: Mapping[str, Any]) -> dict[str, Any]:
    """All versions of the report, the newest first, and this one's budget."""
    return {"versions": selectors.versions(report), **_budget(report, content)}


def _budget(report: Report, content: Mapping[str, Any]) -> dict[str, Any]:
    """The budget as the report has it: what a version expected stands, as in its files."""
    budget = content.get("budget")
    return {"budget": budget and _once_within(budget, _recorded_since(report, content))}


def _once_within(budget: Shape, recorded_since: datetime | None) -> Shape:
    """Older reports called a month within its budget that was recorded in part."""
    is_partial = recorded_since is not None and budget["risk"] == month_end.WITHIN
    return budget | {"risk": month_end.PARTIAL} if is_partial else budget


def _recorded_since(report: Report, content: Mapping[str, Any]) -> datetime | None:
    """As the report says it; older ones do not."""
    if "recorded_since" not in content:
        return costs.not_recorded_before(report.start, timezone.now())
    since = content["recorded_since"]
    return since and datetime.fromisoformat(since)


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


def _rate_lines(content: Shape) -> dict[str, Any]:
    """By GPU model a statement's hours, to four places, what they cost, and what that is the
    product of; and the sum of the hours.
    """
    lines = list(map(asdict, team_months.rate_lines(content.get("lines", []))))
    hours, hours_sum = printed.multiplied_hours([line["gpu_ms"] for line in lines])
    rows = [
        row | {"hours": shown, "arithmetic": _arithmetic(row, shown)}
        for row, shown in zip(printed.rows(lines, content["total"]), hours, strict=True)
    ]
    return {"rate_lines": rows, "rate_hours": hours_sum}


def _compared_days(compared: Mapping[str, str]) -> str:
    start, end = (datetime.fromisoformat(compared[end]) for end in ("from", "to"))
    return timeframes.in_words(start, end, zone())


def _why(report: Report, content: Shape) -> dict[str, Any]:
    """Why the first of the savings list wasted, and what was decided about it."""
    causes = _causes(report, content)
    return {"causes": causes, "decided": _decided(causes) if causes else {}}


def _causes(report: Report, content: Shape) -> dict[str, Advised]:
    """Why the first of the savings list wasted, by the job's key: as the report has it, else as
    diagnosis has it now.
    """
    savings = content.get("savings", [])[:MAX_SAVINGS]
    kept = {line["job"]: Advised(**line["cause"]) for line in savings if line.get("cause")}
    unknown = [line["job"] for line in savings if line["job"] not in kept]
    of = Interval(report.start, report.end)
    return (advised(unknown, of) if unknown else {}) | kept


def _decided(causes: Mapping[str, Advised]) -> dict[str, str]:
    """How the finding of that cause stands that somebody decided about, by the job's key."""
    findings = Finding.objects.filter(job__key__in=list(causes), status__in=DECIDED)
    rows = findings.values_list("job__key", "cause", "status")
    return {key: status for key, cause, status in rows if causes[key].code == cause}


def _listed(content: Shape, size: int) -> dict[str, Any]:
    """The dearest lines, those whose job names nobody apart, and as one what the others come to;
    the first savings.
    """
    rows = printed_lines(content)
    left = rows[size:]
    savings = printed.wasters(content.get("savings", [])[:MAX_SAVINGS])
    return {
        **_by_whom(rows[:size]),
        "rest": printed.summed(left) if left else None,
        "left_off": len(left),
        "savings": savings,
        "savings_total": printed.summed(savings) if savings else None,
        "savings_left_off": len(content.get("savings", [])) - len(savings),
    }


def _arithmetic(line: Shape, shown: Decimal) -> str:
    """What a line's printed dollars are the product of: "= 279.1012 h × $3.99", "≈" where that is
    a cent beside them; "" without a rate. `shown`: all of its hours, as they stand beside it.
    """
    rate = line["usd_per_gpu_hour"]
    if rate is None:
        return ""
    is_all = line["priced_ms"] == line["gpu_ms"]
    priced = shown if is_all else printed.hours(line["priced_ms"])
    hours = f"{numbers.ten_thousandths(priced)} h"
    shown_rate = round(rate, RATE_PLACES)
    is_average = rate != shown_rate
    product = pricing.usd(round(priced, HOUR_PLACES) * shown_rate, pricing.CENT)
    sign = "=" if product == line["printed"]["cost_usd"] else "≈"
    price = f"${rate:.4f} on average" if is_average else numbers.price(rate, "USD")
    return f"{sign} {hours} × {price}"


def _by_state(own_lines: list[Shape]) -> list[Shape]:
    """What no job held, a line for each state, with its `parts` by GPU model."""
    by_state: dict[str, list[Shape]] = {}
    for line in own_lines:
        by_state.setdefault(line["state"], []).append(line)
    return [
        printed.summed(parts) | {"state": state, "parts": parts}
        for state, parts in by_state.items()
    ]


def _by_whom(lines: list[Shape]) -> dict[str, Any]:
    """The lines of jobs that name a user, and those of jobs that name none with their sum."""
    unnamed = [line for line in lines if not line["user"]]
    return {
        "lines": [line for line in lines if line["user"]],
        "unnamed": unnamed,
        "unnamed_total": printed.summed(unnamed) if unnamed else None,
    }
