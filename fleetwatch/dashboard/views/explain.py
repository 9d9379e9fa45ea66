"""Why a figure is what it is, as a page, and as a fragment of the pages that show the figure."""

from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from fleetwatch.costs.priced import priced
from fleetwatch.dashboard import selectors
from fleetwatch.dashboard.choices import chosen
from fleetwatch.dashboard.decided import by_rule
from fleetwatch.dashboard.parameters import PERIOD, takes
from fleetwatch.dashboard.period import read_period
from fleetwatch.dashboard.selectors import Owner
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.totals import UNALLOCATED, Scope
from fleetwatch.inventory import selectors as inventory
from fleetwatch.jobs.models import Job
from fleetwatch.ledger import explain
from fleetwatch.ledger.policy import STATES
from fleetwatch.lib.intervals import Interval

MAX_RULES = 60  # shown; the API gives every window
MAX_PARTS = 40
# what narrows a figure, and what it is called
SUBJECTS = {
    "team": "team",
    "project": "project",
    "cost_centre": "cost centre",
    "user": "user",
    "node": "node",
    "gpu_model": "GPU model",
    "job": "job",
}


@require_GET
@login_required
def explained(request: HttpRequest) -> HttpResponseBase:
    """`?gpu=`: entries, windows and rules of a GPU; else what the figure of `?team=`, `?job=`, ...

    (all: of everything) is made of.
    """
    return _of_gpu(request) if "gpu" in request.GET else _of_figure(request)


@takes(*SUBJECTS, "state", *PERIOD)
def _of_figure(request: HttpRequest) -> HttpResponse:
    """Of what no job held with an empty job; `state` narrows it too."""
    period = read_period(request)
    named: dict[str, Any] = {name: request.GET[name] for name in SUBJECTS if name in request.GET}
    state = _state(request)
    scope = Scope(**named, states=None if state is None else (state,))
    told = costs.traced(period.interval, scope=scope, size=MAX_PARTS)
    further = (
        named
        if told.parts_by == "job"
        else {name: value for name, value in named.items() if name == "job"}
    )
    further = further | ({} if state is None else {"state": state})
    context = {
        "told": told,
        "subjects": [(SUBJECTS[name], value) for name, value in named.items()],
        "owners": _owners(told, period.interval),
        "state": state,
        "further": urlencode(further),
    }
    return render(request, "dashboard/figure.html", period.context("waste", **context))


def _owners(told: costs.Traced, interval: Interval) -> dict[str, Owner]:
    """Whose the jobs in it are, by key: many jobs bear one name.

    GPUs, and what no job held, have no owner.
    """
    keys = (
        [group.key for group in told.parts.groups if group.key != UNALLOCATED]
        if told.parts_by == "job"
        else []
    )
    return selectors.owners(keys, before=interval.end)


def _state(request: HttpRequest) -> str | None:
    return chosen(request, "state", STATES) or None


def _earlier(request: HttpRequest, period: Interval, shown: Interval) -> str:
    """The query of what the period has before the hours that are shown; "" where it has none."""
    if shown.start <= period.start:
        return ""
    kept = {name: request.GET[name] for name in ("gpu", "job", "state") if name in request.GET}
    return urlencode(kept | {"from": period.start.isoformat(), "to": shown.start.isoformat()})


@takes("gpu", "job", "state", *PERIOD)
def _of_gpu(request: HttpRequest) -> HttpResponse:
    """`?gpu=&from=&to=[&job=][&state=]`: the newest 6 hours of a longer period; with an empty job
    what no job held.
    """
    gpu = inventory.gpu(request.GET["gpu"])
    if gpu is None:
        raise Http404
    key, only = request.GET.get("job"), _state(request)
    job = get_object_or_404(Job, key=key) if key else None
    period = read_period(request, default="1h")
    is_nobody = key == UNALLOCATED
    job_id = explain.NOBODY if is_nobody else None if job is None else job.pk
    interval = explain.newest(gpu, period.interval, job_id=job_id, state=only)
    lines = priced(explain.rows(gpu, interval, job_id=job_id, state=only))
    found = by_rule(explain.stretches(gpu, interval, job_id=job_id, state=only))
    jobs = Job.objects.in_bulk({one.job_id for one in found if one.job_id is not None})
    context = {
        "gpu": gpu,
        "job": job,
        "is_nobody": is_nobody,
        "interval": interval,
        "asked": [
            moment.isoformat(timespec="minutes") for moment in (interval.start, interval.end)
        ],
        "is_cut": interval != period.interval,
        "earlier": _earlier(request, period.interval, interval),
        "is_final": explain.is_final(interval, period.now),
        "lines": lines,
        "total_usd": sum(line.usd for line in lines if line.usd is not None),
        "unpriced": any(line.usd is None for line in lines),
        "windows": [(one, jobs.get(one.job_id)) for one in found[:MAX_RULES]],
        "left_off": max(0, len(found) - MAX_RULES),
        "state": only or "",
        "states": STATES,
    }
    template = (
        "dashboard/_explain.html" if request.headers.get("HX-Request") else "dashboard/explain.html"
    )
    return render(request, template, period.context("fleet", **context))
