"""The overview, and what of it comes after."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import cast

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect

from fleetwatch.accounts.models import User
from fleetwatch.accounts.people import teams_led
from fleetwatch.accounts.permissions import Right, is_engineer, may
from fleetwatch.accounts.visibility import narrowed, sight
from fleetwatch.budgets import selectors as budgets
from fleetwatch.costs.mapping import attribution
from fleetwatch.dashboard import selectors
from fleetwatch.dashboard.adjusted import adjusted
from fleetwatch.dashboard.choices import chosen
from fleetwatch.dashboard.compared_period import (
    COMPARE,
    as_recorded,
    before,
    compared_with,
    compares,
)
from fleetwatch.dashboard.drawing.bars import Segment
from fleetwatch.dashboard.duties import PRESSING, duties_of_lead, pressing
from fleetwatch.dashboard.fleet_health import needs_somebody
from fleetwatch.dashboard.funnel import funnel
from fleetwatch.dashboard.idle_jobs import NOTHING_ACCEPTED, AcceptedIdle, accepted_idle
from fleetwatch.dashboard.longest_idle import longest_idle
from fleetwatch.dashboard.parameters import PERIOD, SUBJECTS, filtered
from fleetwatch.dashboard.period import Period
from fleetwatch.dashboard.recorded_part import record_of
from fleetwatch.dashboard.recoverable import recoverable
from fleetwatch.dashboard.showing import Context, is_empty, part_of, shows
from fleetwatch.diagnosis.findings import machine_findings
from fleetwatch.diagnosis.findings.inbox import agreed_by, agreed_usd
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.comparison import LEAST_RATIO
from fleetwatch.figures.fleet_now import spending_now
from fleetwatch.figures.posted import summed_until
from fleetwatch.figures.selectors import Group, Scope, Totals, Wasters
from fleetwatch.figures.totals import SpendingNow, less
from fleetwatch.inventory import selectors as inventory
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger.check import waiting_hours
from fleetwatch.ledger.state_days import SETTLED
from fleetwatch.lib.intervals import Interval, floor_hour
from fleetwatch.reports.day_change import day_change

TOP = 6
WORST_GPUS = 10
WASTERS = ("team", "user", "job")
MAX_SILENT = 5
IN_LINE = "parts"  # of an address that asks for the page with all of its parts
YES = "1"
# Of a period before: where it ends within an hour, that hour's rounding may leave some milliseconds
# of what there was none.
LEAST_MS = 60_000


@dataclass(frozen=True, slots=True)
class Change:
    """How a figure moved against the period before; None where there was nothing to compare
    with.
    """

    wasted: float | None
    useful_points: float | None

    @property
    def is_wasted_unchanged(self) -> bool:
        return self.wasted is not None and abs(self.wasted) < LEAST_RATIO


NO_CHANGE = Change(None, None)


@shows("dashboard/overview.html", "overview", *SUBJECTS, *PERIOD, COMPARE, IN_LINE)
def home(request: HttpRequest, period: Period) -> Context | HttpResponseBase:
    """The overview; an engineer, and who does not see everything, is led to the own page, also
    before there is a GPU.
    """
    if is_engineer(request.user) or narrowed() is not None:
        return redirect("me")
    return redirect("welcome") if is_empty() else _overview(request, period)


@shows("dashboard/overview.html", "overview", *SUBJECTS, *PERIOD, COMPARE, IN_LINE, needs_gpus=True)
def overview(request: HttpRequest, period: Period) -> Context:
    return _overview(request, period)


def _overview(request: HttpRequest, period: Period) -> Context:
    """What stands now, and what is open, is of the whole fleet: a narrowed overview leaves it
    out.
    """
    scope, filters = filtered(request)
    since = None if filters else _month_within(period)
    totals, of_month = costs.totals_since(period.interval, since, scope=scope)
    context = {
        "filters": filters,
        **_in_line(request, period),
        "is_money_first": _is_money_first(request),
        "totals": totals,
        **_compared(request, period, totals, scope),
        **record_of(period, totals.capacity_ms),
        "summed_until": summed_until(period.interval, period.now),
        **compared_with(request),
        "funnel": funnel(totals),
        "unposted": _unposted(period.interval, period.now),
        "progress": machine_findings.progress(period.interval, now=period.now),
        "agreed_usd": agreed_usd(period.interval, now=period.now, scope=scope),
    }
    if filters:
        return context
    return context | _of_the_fleet(period, totals, of_month) | _of_lead(request, period)


def _compared(request: HttpRequest, period: Period, totals: Totals, scope: Scope) -> Context:
    """How the figures moved against the period before, where the reader wants that and all of it is
    recorded; else since when it is, or that none of it is.
    """
    if not compares(request):
        return {"change": NO_CHANGE}
    recorded = as_recorded(before(period))
    if recorded.whole is None:
        return {"change": NO_CHANGE, "has_none_before": True, "before_since": recorded.since}
    return {"change": _change(totals, period, recorded.whole, scope)}


def _in_line(request: HttpRequest, period: Period) -> Context:
    """The parts that the page fetches otherwise when it is there, for whoever has no JavaScript."""
    if not chosen(request, IN_LINE, (YES,)):
        return {}
    return {
        "is_in_line": True,
        **recoverable(request, period),
        **_worst(request, period),
        **_wasters(request, period),
        **_changes(request, period),
    }


def _of_lead(request: HttpRequest, period: Period) -> Context:
    """What waits for the lead of a team, and how the team's budget stands; of others nothing."""
    led = teams_led(cast("User", request.user), period.now)
    if not led:
        return {}
    return {
        "lead_duties": duties_of_lead(led, period.interval, period.now),
        "led_budgets": [budgets.line(team, period.minute) for team in led],
    }


def _is_money_first(request: HttpRequest) -> bool:
    """Whether dollars stand above incidents: to finance, which does not run the fleet."""
    user = cast("User", request.user)
    return may(user, Right.MONEY) and not may(user, Right.FLEET)


def _month_within(period: Period) -> datetime | None:
    """When the running month began, where the period holds what of it is over, and no more after
    it: it need not be read again.
    """
    so_far = budgets.running_month(period.minute).so_far
    if so_far is None or so_far.end != period.interval.end:
        return None
    return so_far.start if so_far.start >= period.interval.start else None


def _of_the_fleet(period: Period, totals: Totals, of_month: Totals | None) -> Context:
    sees_all = sight() is None  # incidents name owners, and a budget is the fleet's
    return {
        **(needs_somebody(period.now) if sees_all else {}),
        "month": budgets.line(None, period.minute, spent=of_month) if sees_all else None,
        "adjusted": adjusted(period.interval, totals.cost_usd),
        **_now(period.now),
    }


@shows("dashboard/_recoverable.html", "overview", *SUBJECTS, *PERIOD, is_part=True)
@part_of("overview")
def overview_recoverable(request: HttpRequest, period: Period) -> Context:
    """What open findings could bring back; the page fetches it when it is there."""
    return recoverable(request, period)


@shows("dashboard/_worst.html", "overview", *SUBJECTS, is_part=True)
@part_of("overview")
def overview_worst(request: HttpRequest, period: Period) -> Context:
    """The GPUs that wasted most in the last 24 hours; the page fetches it when it is there, so that
    it need not wait for it.
    """
    return _worst(request, period)


def _worst(request: HttpRequest, period: Period) -> Context:
    scope, filters = filtered(request)
    return {"worst": _worst_gpus(period.now, scope), "filters": filters}


@shows("dashboard/_day_change.html", "overview", *SUBJECTS, is_part=True)
@part_of("overview")
def overview_changes(request: HttpRequest, period: Period) -> Context:
    """What changed since the day before; the page fetches it when it is there."""
    return _changes(request, period)


def _changes(request: HttpRequest, period: Period) -> Context:
    scope, filters = filtered(request)
    return {
        "changed": day_change(period.now, scope=scope),
        "filters": filters,
        **({} if filters or sight() is not None else _budgets_of(request, period)),
    }


def _budgets_of(request: HttpRequest, period: Period) -> Context:
    """The teams that the reader leads, each with its month and what it wasted in the period; and
    the budgets that are passed or may be, the most pressing first.
    """
    lines = budgets.lines(period.minute)
    led = {team.slug for team in teams_led(cast("User", request.user), period.now)}
    return {
        "led": [
            (line, costs.totals(period.interval, scope=Scope(team=line.key)).wasted_usd)
            for line in lines
            if line.key in led
        ],
        "risks": PRESSING,
        "pressing": [line for line in pressing(lines) if line.key not in led],
    }


@shows("dashboard/_wasters.html", "overview", *SUBJECTS, *PERIOD, is_part=True)
@part_of("waste", group_by="user")
def overview_wasters(request: HttpRequest, period: Period) -> Context:
    """Who wasted most; the page fetches it when it is there."""
    return _wasters(request, period)


def _wasters(request: HttpRequest, period: Period) -> Context:
    scope, filters = filtered(request)
    wasters = costs.wasters(period.interval, TOP, scope=scope)
    keys = (group.key for group in wasters.jobs.groups)
    agreed = agreed_by(WASTERS, period.interval, now=period.now, scope=scope)
    return {
        "filters": filters,
        "breakdowns": _breakdowns(wasters, agreed),
        "owners": attribution.jobs_by_key(keys, before=period.interval.end),
    }


def _unposted(interval: Interval, now: datetime) -> int:
    """How many of the period's hours of nodes have been over for a while and are in no figure yet,
    or not as they came last.
    """
    return waiting_hours(interval.start, min(interval.end, floor_hour(now - SETTLED)))


def _now(now: datetime) -> Context:
    """What the fleet costs now and what stands idle; the job that idles longest with its cost so
    far; the silent nodes.
    """
    spending = spending_now(now)
    accepted = accepted_idle(now) if spending.idle_gpus else NOTHING_ACCEPTED
    return {
        "spending": spending,
        **_idle(spending, accepted),
        "longest": longest_idle(now, but=accepted.job_ids) if spending.idle_gpus else None,
        "silent": inventory.silent_nodes(),
        "max_silent": MAX_SILENT,
    }


def _idle(spending: SpendingNow, accepted: AcceptedIdle) -> Context:
    """The GPUs that idle and ask for somebody, and beside them those that were accepted."""
    usd_per_hour = spending.idle_usd_per_hour - accepted.usd_per_hour
    return {
        "idle_gpus": max(spending.idle_gpus - accepted.gpu_count, 0),
        "idle_usd_per_hour": max(usd_per_hour, Decimal(0)),
        "accepted": accepted,
    }


def _change(totals: Totals, period: Period, earlier: Interval, scope: Scope) -> Change:
    # where the one ends and the other begins, a day and an hour would be taken apart
    both = Interval(earlier.start, period.interval.end)
    then = less(costs.totals(both, scope=scope), totals)
    has_wasted = then.wasted_ms >= LEAST_MS and then.wasted_usd > 0
    wasted = float(totals.wasted_usd / then.wasted_usd - 1) if has_wasted else None
    share_now = totals.spend_efficiency
    share_before = _share(then)
    if share_now is None or share_before is None:
        return Change(wasted, None)
    return Change(wasted, (share_now - share_before) * 100)


def _share(before: Totals) -> float | None:
    """What of the dollars before was useful; None where all that was so is "busy, unverified"."""
    measured_ms = before.states["useful"] - before.busy_only_ms
    is_unmeasured = bool(before.busy_only_ms) and measured_ms < LEAST_MS
    return None if is_unmeasured else before.spend_efficiency


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The top wasters of one kind, and by key what of that people agreed is no waste."""

    kind: str
    title: str
    groups: list[Group]
    rest: int
    agreed: Mapping[str, Decimal]


def _teams(wasters: Wasters) -> list[Group]:
    """The top ones, and below them what no job held."""
    unallocated = [wasters.unallocated] if wasters.unallocated else []
    return [*wasters.teams[:TOP], *unallocated]


def _breakdowns(wasters: Wasters, agreed: Mapping[str, Mapping[str, Decimal]]) -> list[Breakdown]:
    """The top wasters by team, user and job."""
    by_kind = {
        "team": ("Teams", _teams(wasters), max(0, len(wasters.teams) - TOP)),
        "user": ("Users", wasters.users.groups, wasters.users.after.groups),
        "job": ("Jobs", wasters.jobs.groups, wasters.jobs.after.groups),
    }
    return [Breakdown(kind, *lines, agreed[kind]) for kind, lines in by_kind.items()]


def _worst_gpus(now: datetime, scope: Scope) -> list[tuple[GPU, list[Segment]]]:
    """The GPUs that wasted most in the last 24 hours, with their states."""
    day = Interval(now - timedelta(hours=24), now)
    groups = costs.ranked(day, "gpu", size=WORST_GPUS, scope=scope).groups
    by_uuid = inventory.newest_rows(group.key for group in groups if group.totals.wasted_ms)
    gpus = [by_uuid[group.key] for group in groups if group.key in by_uuid]
    bands = selectors.bands([gpu.pk for gpu in gpus], day)
    return [(gpu, bands[gpu.pk]) for gpu in gpus]
