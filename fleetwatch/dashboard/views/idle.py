"""Which GPUs idle right now, one by one: what the overview's banner counts."""

from decimal import Decimal

from django.http import HttpRequest

from fleetwatch.dashboard.idle import idle_gpus
from fleetwatch.dashboard.period import Period
from fleetwatch.dashboard.showing import Context, shows
from fleetwatch.figures.fleet_now import spending_now

MAX_GPUS = 300


@shows("dashboard/idle.html", "fleet", needs_gpus=True)
def idle(_: HttpRequest, period: Period) -> Context:
    lines = idle_gpus(period.now)
    per_hour = [line.usd_per_hour for line in lines if line.usd_per_hour is not None]
    return {
        "lines": lines[:MAX_GPUS],
        "gpu_count": len(lines),
        "left_off": max(0, len(lines) - MAX_GPUS),
        "usd_per_hour": sum(per_hour, Decimal(0)),
        "unpriced_gpus": len(lines) - len(per_hour),
        "spending": spending_now(period.now),
    }
