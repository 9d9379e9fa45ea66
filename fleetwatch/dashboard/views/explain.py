"""Why a figure is what it is, as a page, and as a fragment of the pages that show the figure."""

from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_GET

from fleetwatch.accounts.visibility import sight
from fleetwatch.costs.mapping import attribution
from fleetwatch.costs.priced import priced
from fleetwatch.dashboard.choices import chosen_several
from fleetwatch.dashboard.decided import by_rule
from fleetwatch.dashboard.parameters import PERIOD, takes
from fleetwatch.dashboard.period import Period, read_period
from fleetwatch.dashboard.showing import Context, existing, page
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.breakdown import Traced
from fleetwatch.figures.totals import UNALLOCATED, Scope
from fleetwatch.inventory import selectors as inventory
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.visible_jobs import visible
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
    "kind": "kind",
    "cluster": "cluster",
    "label": "label",
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
    states = _states(request)
    scope = Scope(**named, states=states)
    figure = costs.traced(period.interval, scope=scope, size=MAX_PARTS)
    context = {
        "figure": figure,
        "headline_usd": _headline_usd(figure, states),
        "subjects": [(SUBJECTS[name], value) for name, value in named.items()],
        "states": states,
        **_parts(figure, named | _named_states(states), period.interval),
    }
    return page(request, period, "dashboard/figure.html", "waste", context)


def _headline_usd(figure: Traced, states: tuple[str, ...] | None) -> Decimal:
    """What the page that led here says: a state alone is told without what is apart from it."""
    totals = figure.totals
    return totals.shown_cost[states[0]] if states and len(states) == 1 else totals.cost_usd


def _parts(figure: Traced, named: dict[str, str], interval: Interval) -> Context:
    """Whose its parts are, and by what their own figures are narrowed further."""
    if figure.parts_by == "job":
        # many jobs bear one name; what no job held has no owner
        keys = [part.key for part in figure.parts.groups if part.key != UNALLOCATED]
        owners = attribution.jobs_by_key(keys, before=interval.end)
        return {"owners": owners, "further": urlencode(named), "leads_on": True}
    kept = {name: value for name, value in named.items() if name in ("job", "state")}
    job = visible(Job.objects.filter(key=named.get("job", UNALLOCATED))).first()
    return {"owners": {}, "further": urlencode(kept), "leads_on": _is_explained(job)}


def _states(request: HttpRequest) -> tuple[str, ...] | None:
    """Those that are asked for; None = all."""
    return chosen_several(request, "state", STATES) or None


def _named_states(states: tuple[str, ...] | None) -> dict[str, str]:
    """As an address names them."""
    return {"state": ",".join(states)} if states else {}


def _shown(request: HttpRequest, period: Period, shown: Interval) -> Context:
    """Which hours of the period are shown, and the way to those before."""
    return {
        "interval": shown,
        "asked": [moment.isoformat(timespec="minutes") for moment in (shown.start, shown.end)],
        "is_cut": shown != period.interval,
        "is_final": explain.is_final(shown, period.now),
        "earlier": _earlier(request, period.interval, shown),
    }


def _earlier(request: HttpRequest, period: Interval, shown: Interval) -> str:
    """The query of what the period has before the hours that are shown; "" where it has none."""
    if shown.start <= period.start:
        return ""
    kept = {name: request.GET[name] for name in ("gpu", "job", "state") if name in request.GET}
    return urlencode(kept | {"from": period.start.isoformat(), "to": shown.start.isoformat()})


@takes("gpu", "job", "state", *PERIOD)
def _of_gpu(request: HttpRequest) -> HttpResponse:
    """`?gpu=&from=&to=[&job=][&state=]`: the newest 6 hours of a longer period; with an empty job
    what no job held. Who does not see everything names a job, all of whose time is his to see.
    """
    gpu = existing(inventory.gpu(request.GET["gpu"]))
    states = _states(request)
    job, holder = _holder(request.GET.get("job"))
    period = read_period(request, default="1h")
    which: dict[str, Any] = {"job_id": holder, "states": states}
    interval = explain.newest(gpu, period.interval, **which)
    context = {
        "gpu": gpu,
        "job": job,
        "is_nobody": holder == explain.NOBODY,
        "states": states,
        "every_state": STATES,
        **_shown(request, period, interval),
        **_behind(gpu, interval, which),
    }
    name = "_explain.html" if request.headers.get("HX-Request") else "explain.html"
    return page(request, period, f"dashboard/{name}", "fleet", context)


def _holder(key: str | None) -> tuple[Job | None, int | None]:
    """The job of that key, and by what the ledger knows who held the GPU (None: whoever). Raises
    Http404, also where not all of that is the reader's to see.
    """
    job = get_object_or_404(visible(Job.objects.all()), key=key) if key else None
    if not _is_explained(job):
        raise Http404
    if job is None:
        return None, explain.NOBODY if key == UNALLOCATED else None
    return job, job.pk


def _is_explained(job: Job | None) -> bool:
    """Whether a GPU's time under the job (None: under whomever) is all the reader's to see."""
    return sight() is None if job is None else attribution.seen_spans(job) is None


def _behind(gpu: GPU, interval: Interval, which: dict[str, Any]) -> Context:
    """Entries of the ledger with their dollars, and of the windows behind them the first rules that
    decided them, each with the job that held the GPU.
    """
    lines = priced(explain.rows(gpu, interval, **which))
    decided = by_rule(explain.stretches(gpu, interval, **which))
    jobs = Job.objects.in_bulk({each.job_id for each in decided if each.job_id is not None})
    return {
        "lines": lines,
        "total_usd": sum(line.usd for line in lines if line.usd is not None),
        "unpriced": any(line.usd is None for line in lines),
        "windows": [(each, jobs.get(each.job_id)) for each in decided[:MAX_RULES]],
        "left_off": max(0, len(decided) - MAX_RULES),
    }
