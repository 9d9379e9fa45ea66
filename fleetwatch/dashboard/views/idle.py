"""What idles right now, job by job: the GPUs that the overview's banner counts."""

from collections.abc import Sequence
from decimal import Decimal

from django.http import HttpRequest

from fleetwatch.dashboard.idle import IdleGPU, idle_gpus
from fleetwatch.dashboard.idle_jobs import idle_jobs
from fleetwatch.dashboard.idle_lately import idle_lately, is_within, quiet_now
from fleetwatch.dashboard.parameters import PLACES, among
from fleetwatch.dashboard.period import Period
from fleetwatch.dashboard.showing import Context, shows
from fleetwatch.figures.fleet_now import spending_now

MAX_JOBS = 200


@shows("dashboard/idle.html", "fleet", *PLACES, needs_gpus=True)
def idle(request: HttpRequest, period: Period) -> Context:
    filters = among(request, PLACES)
    every = idle_gpus(period.now)
    gpus = [each for each in every if is_within(filters, each.gpu, each.jobs)]
    lines = idle_jobs(gpus, period.now)
    return {
        "filters": filters,
        "lines": lines[:MAX_JOBS],
        "gpu_count": len(gpus),
        "left_off": max(0, len(lines) - MAX_JOBS),
        **_dollars(gpus),
        "accepted_gpus": sum(len(line.gpus) for line in lines if line.is_accepted),
        "spending": spending_now(period.now),
        "lately": idle_lately(period.now, but=[each.gpu.pk for each in every], filters=filters),
        "quiet": quiet_now(period.now, filters),
    }


def _dollars(gpus: Sequence[IdleGPU]) -> Context:
    """What they cost an hour, and how many have no rate."""
    per_hour = [each.usd_per_hour for each in gpus if each.usd_per_hour is not None]
    return {
        "usd_per_hour": sum(per_hour, Decimal(0)),
        "unpriced_gpus": len(gpus) - len(per_hour),
    }
