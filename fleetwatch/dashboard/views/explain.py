"""Why a figure is what it is, as a page, and as a fragment of the pages that show the figure."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from fleetwatch.costs.priced import priced
from fleetwatch.dashboard.decided import by_rule
from fleetwatch.dashboard.period import read_period
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.ledger import explain
from fleetwatch.ledger.policy import STATES

MAX_RULES = 60  # shown; the API gives every window


@require_GET
@login_required
def explained(request: HttpRequest) -> HttpResponse:
    """`?gpu=&from=&to=[&job=][&state=]`: the newest 6 hours of a longer period."""
    gpu = get_object_or_404(GPU.objects.select_related("node", "model"), uuid=request.GET.get("gpu", ""))
    key, state = request.GET.get("job", ""), request.GET.get("state", "")
    job = get_object_or_404(Job, key=key) if key else None
    period = read_period(request, default="1h")
    job_id, only = None if job is None else job.pk, state if state in STATES else None
    interval = explain.newest(gpu, period.interval, job_id=job_id, state=only)
    lines = priced(explain.rows(gpu, interval, job_id=job_id, state=only))
    found = by_rule(explain.stretches(gpu, interval, job_id=job_id, state=only))
    jobs = Job.objects.in_bulk({one.job_id for one in found if one.job_id is not None})
    context = {
        "gpu": gpu,
        "job": job,
        "interval": interval,
        "asked": [moment.isoformat(timespec="minutes") for moment in (interval.start, interval.end)],
        "is_cut": interval != period.interval,
        "is_final": explain.is_final(interval, period.now),
        "lines": lines,
        "total_usd": sum(line.usd for line in lines if line.usd is not None),
        "unpriced": any(line.usd is None for line in lines),
        "windows": [(one, jobs.get(one.job_id)) for one in found[:MAX_RULES]],
        "left_off": max(0, len(found) - MAX_RULES),
        "state": only or "",
        "states": STATES,
    }
    template = "dashboard/_explain.html" if request.headers.get("HX-Request") else "dashboard/explain.html"
    return render(request, template, period.context("fleet", **context))
