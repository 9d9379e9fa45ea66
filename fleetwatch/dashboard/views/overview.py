"""The overview, the line of it that stays live, and what of it comes after."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET

from fleetwatch.alerts.selectors import open_incidents
from fleetwatch.dashboard import selectors
from fleetwatch.dashboard.adjusted import adjusted
from fleetwatch.dashboard.bars import Segment
from fleetwatch.dashboard.idle import longest_idle
from fleetwatch.dashboard.parameters import PERIOD, takes, takes_only
from fleetwatch.dashboard.period import read_period
from fleetwatch.diagnosis.causes import of_kind
from fleetwatch.diagnosis.findings import machine_findings
from fleetwatch.diagnosis.selectors import findings, with_jobs
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.selectors import Group, Totals, Wasters
from fleetwatch.inventory import selectors as inventory
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger.check import waiting_hours
from fleetwatch.ledger.state_days import SETTLED
from fleetwatch.lib.intervals import HOUR_MS, Interval, floor_hour

TOP = 6
TOP_SAVINGS = 5
WORST_GPUS = 10
MAX_SILENT = 5


@dataclass(frozen=True, slots=True)
class Change:
    """How a figure moved against the period before; None where there was nothing to compare
    with.
    """

    wasted: float | None
    useful_points: float | None


@dataclass(frozen=True, slots=True)
class Band:
    """A GPU with its last 24 hours."""

    gpu: GPU
    segments: list[Segment]


@require_GET
@login_required
@takes(*PERIOD)
def overview(request: HttpRequest) -> HttpResponse:
    if not selectors.has_data():
        return redirect("welcome")
    period = read_period(request)
    wasters = costs.wasters(period.interval, TOP)
    incidents = open_incidents()
    of_jobs = findings(period.interval, now=period.now)
    of_places = machine_findings.findings(period.interval, now=period.now)
    context = {
        "totals": wasters.totals,
        "change": _change(wasters.totals, period.previous),
        "breakdowns": _breakdowns(wasters),
        "owners": selectors.owners(
            (group.key for group in wasters.jobs.groups), before=period.interval.end
        ),
        "incidents": incidents[:TOP],
        "incident_count": len(incidents),
        "savings": [
            (line, of_kind(line.finding.cause, line.job.kind))
            for line in with_jobs(
                of_jobs.of_status("open")[:TOP_SAVINGS], before=period.interval.end
            )
        ],
        "savings_total": machine_findings.saving(of_jobs, of_places, *machine_findings.RECOVERABLE),
        "savings_count": of_jobs.counts()["open"]
        + sum(line.status == "open" for line in of_places),
        "adjusted": adjusted(period.interval, wasters.totals.cost_usd),
        "unposted": _unposted(period.interval, period.now),
        "progress": machine_findings.progress(period.interval, now=period.now),
        **_now(period.now),
    }
    return render(request, "dashboard/overview.html", period.context("overview", **context))


@require_GET
@login_required
@takes_only()
def overview_now(request: HttpRequest) -> HttpResponse:
    """The notice line alone, for htmx."""
    period = read_period(request, is_page=False)
    return render(request, "dashboard/_now.html", period.context("overview", **_now(period.now)))


@require_GET
@login_required
@takes_only()
def overview_worst(request: HttpRequest) -> HttpResponse:
    """The GPUs that wasted most in the last 24 hours; the page fetches it when it is there, so that
    it need not wait for it.
    """
    period = read_period(request, is_page=False)
    return render(
        request, "dashboard/_worst.html", period.context("overview", worst=_worst_gpus(period.now))
    )


def _unposted(interval: Interval, now: datetime) -> int:
    """How many of the period's hours of nodes have been over for a while and are in no figure yet,
    or not as they came last.
    """
    return waiting_hours(interval.start, min(interval.end, floor_hour(now - SETTLED)))


def _now(now: datetime) -> dict[str, Any]:
    """What the fleet costs now and what stands idle; the job that idles longest with its cost so
    far; the silent nodes.
    """
    spending = costs.spending_now(now)
    return {
        "spending": spending,
        "longest": longest_idle(now) if spending.idle_gpus else None,
        "silent": inventory.silent_nodes(),
        "max_silent": MAX_SILENT,
    }


def _change(totals: Totals, previous: Interval) -> Change:
    # half a period of history says nothing of a change: a young ledger need not be summed to know
    # that it has less
    if costs.capacity_at_most(previous) * 2 < totals.capacity_ms:
        return Change(None, None)
    before = costs.totals(previous)
    if before.capacity_ms * 2 < totals.capacity_ms:
        return Change(None, None)
    wasted = float(totals.wasted_usd / before.wasted_usd - 1) if before.wasted_usd else None
    now_share, then_share = totals.spend_efficiency, before.spend_efficiency
    points = (
        (now_share - then_share) * 100 if now_share is not None and then_share is not None else None
    )
    return Change(wasted, points)


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The top wasters of one kind."""

    kind: str
    title: str
    groups: list[Group]
    rest: int


def _breakdowns(wasters: Wasters) -> list[Breakdown]:
    """The top wasters by team, user and job."""
    return [
        Breakdown("team", "Teams", wasters.teams[:TOP], max(0, len(wasters.teams) - TOP)),
        Breakdown("user", "Users", wasters.users.groups, wasters.users.after.groups),
        Breakdown("job", "Jobs", wasters.jobs.groups, wasters.jobs.after.groups),
    ]


def _worst_gpus(now: datetime) -> list[Band]:
    """The GPUs that wasted most in the last 24 hours, with their states."""
    day = Interval(now - timedelta(milliseconds=24 * HOUR_MS), now)
    worst = [
        group.key
        for group in costs.ranked(day, "gpu", size=WORST_GPUS).groups
        if group.totals.wasted_ms
    ]
    gpus = selectors.gpus_by_uuid(worst)
    found = [gpus[uuid] for uuid in worst if uuid in gpus]
    bands = selectors.bands([gpu.pk for gpu in found], day)
    return [Band(gpu, bands[gpu.pk]) for gpu in found]
