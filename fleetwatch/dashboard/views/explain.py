"""Why a figure is what it is, as a page, and as a fragment of the pages that show the figure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from fleetwatch.costs.priced import priced
from fleetwatch.dashboard.period import read_period
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.ledger import explain
from fleetwatch.ledger.policy import STATES

MAX_GROUPS = 400  # shown; the API gives every window


@dataclass(frozen=True, slots=True)
class Alike:
    """Windows one after the other that the same words decided: how many, their GPU time by state, the range of each value."""

    start_ms: int
    end_ms: int
    job_id: int | None
    count: int
    rule: Sequence[str]
    parts: Mapping[str, int]
    values: Mapping[str, tuple[float, float]] | None

    @classmethod
    def of(cls, several: Sequence[explain.Stretch]) -> "Alike":
        """Raises IndexError for none."""
        first, parts = several[0], Counter[str]()
        for one in several:
            for part in one.parts:
                parts[part.state] += part.gpu_ms
        told = [one.values for one in several if one.values is not None]
        values = {name: (min(each[name] for each in told), max(each[name] for each in told)) for name in (told[0] if told else ())}
        return cls(first.start_ms, several[-1].end_ms, first.job_id, len(several), first.rule, dict(parts), values if told else None)


def alike(found: Iterable[explain.Stretch]) -> list[Alike]:
    """The windows by time, those of one rule and with the same columns in one line; of several holders each has its own."""
    lanes: dict[tuple[int, int | None], list[explain.Stretch]] = {}
    for one in found:
        lanes.setdefault((one.gpu_id, one.job_id), []).append(one)
    lines = [Alike.of(list(some)) for lane in lanes.values() for _, some in groupby(lane, key=_decided)]
    return sorted(lines, key=lambda line: (line.start_ms, line.job_id or 0))


def _decided(one: explain.Stretch) -> tuple[object, ...]:
    return one.rule, [part.state for part in one.parts], None if one.values is None else list(one.values)


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
    found = alike(explain.stretches(gpu, interval, job_id=job_id, state=only))
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
        "windows": [(one, jobs.get(one.job_id)) for one in found[:MAX_GROUPS]],
        "left_off": max(0, len(found) - MAX_GROUPS),
        "state": only or "",
        "states": STATES,
    }
    template = "dashboard/_explain.html" if request.headers.get("HX-Request") else "dashboard/explain.html"
    return render(request, template, period.context("fleet", **context))
