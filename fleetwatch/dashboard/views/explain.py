"""Why a figure is what it is, as a page, and as a fragment of the pages that show the figure."""

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_GET

from fleetwatch.costs.priced import priced
from fleetwatch.dashboard import selectors
from fleetwatch.dashboard.choices import chosen
from fleetwatch.dashboard.decided import by_rule
from fleetwatch.dashboard.parameters import PERIOD, takes
from fleetwatch.dashboard.period import read_period
from fleetwatch.dashboard.showing import page
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.totals import UNALLOCATED, Scope
from fleetwatch.inventory import selectors as inventory
from fleetwatch.jobs.models import Job
from fleetwatch.ledger import explain
from fleetwatch.ledger.explain import Stretch
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
    figure = costs.traced(period.interval, scope=scope, size=MAX_PARTS)
    are_jobs = figure.parts_by == "job"
    further = {name: value for name, value in named.items() if are_jobs or name == "job"}
    # many jobs bear one name; GPUs, and what no job held, have no owner
    jobs = [part.key for part in figure.parts.groups if are_jobs and part.key != UNALLOCATED]
    context = {
        "figure": figure,
        "subjects": [(SUBJECTS[name], value) for name, value in named.items()],
        "owners": selectors.jobs_by_key(jobs, before=period.interval.end),
        "state": state,
        "further": urlencode(further | ({"state": state} if state else {})),
    }
    return page(request, period, "dashboard/figure.html", "waste", context)


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
    state = _state(request)
    key = request.GET.get("job")
    job = get_object_or_404(Job, key=key) if key else None
    period = read_period(request, default="1h")
    holder = job.pk if job else None
    if key == UNALLOCATED:
        holder = explain.NOBODY
    interval = explain.newest(gpu, period.interval, job_id=holder, state=state)
    context = {
        "gpu": gpu,
        "job": job,
        "is_nobody": key == UNALLOCATED,
        "interval": interval,
        "asked": [
            moment.isoformat(timespec="minutes") for moment in (interval.start, interval.end)
        ],
        "is_cut": interval != period.interval,
        "earlier": _earlier(request, period.interval, interval),
        "is_final": explain.is_final(interval, period.now),
        "state": state or "",
        "states": STATES,
        **_entries(explain.rows(gpu, interval, job_id=holder, state=state)),
        **_windows(explain.stretches(gpu, interval, job_id=holder, state=state)),
    }
    is_part = request.headers.get("HX-Request")
    template = "dashboard/_explain.html" if is_part else "dashboard/explain.html"
    return page(request, period, template, "fleet", context)


def _entries(rows: Any) -> dict[str, Any]:
    """Entries of the ledger with their dollars."""
    lines = priced(rows)
    return {
        "lines": lines,
        "total_usd": sum(line.usd for line in lines if line.usd is not None),
        "unpriced": any(line.usd is None for line in lines),
    }


def _windows(stretches: Iterable[Stretch]) -> dict[str, Any]:
    """The first rules that decided them, each with the job that held the GPU."""
    decided = by_rule(stretches)
    jobs = Job.objects.in_bulk({each.job_id for each in decided if each.job_id is not None})
    return {
        "windows": [(each, jobs.get(each.job_id)) for each in decided[:MAX_RULES]],
        "left_off": max(0, len(decided) - MAX_RULES),
    }
