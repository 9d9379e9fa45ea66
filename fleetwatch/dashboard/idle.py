"""What idles now, as the overview says it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from fleetwatch.costs.mapping.attribution import into_teams
from fleetwatch.costs.rates.rates_in_force import RatesInForce
from fleetwatch.figures import pricing
from fleetwatch.figures.others_names import jobs_shown
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.selectors import RunSpan, open_idle_runs
from fleetwatch.lib.intervals import to_ms

LEAST_SHOWN_MS = 900_000


@dataclass(frozen=True, slots=True)
class LongestIdle:
    """The job with the GPU that idles longest; `gpu_count` counts its GPUs that idle now."""

    job: Job
    gpu: GPU
    gpu_count: int
    since_ms: int
    lasted_ms: int
    # of what its GPUs idle now, each since it does, as in an incident; None when one has no rate
    cost_usd: Decimal | None


def longest_idle(now: datetime) -> LongestIdle | None:
    """What has been idle longest without a break, if for a quarter of an hour at least."""
    idle = open_idle_runs(now)
    first = min(idle, key=lambda each: (each.start_ms, each.gpu_id), default=None)
    if not first or not first.job_id or to_ms(now) - first.start_ms < LEAST_SHOWN_MS:
        return None
    job = Job.objects.select_related("team").get(pk=first.job_id)
    [job] = jobs_shown(into_teams([job], before=now))
    of_job = [each for each in idle if each.job_id == first.job_id]
    return LongestIdle(
        job=job,
        gpu=GPU.objects.select_related("node").get(pk=first.gpu_id),
        gpu_count=len(of_job),
        since_ms=first.start_ms,
        lasted_ms=to_ms(now) - first.start_ms,
        cost_usd=_cost_usd(of_job),
    )


def _cost_usd(idle: Sequence[RunSpan]) -> Decimal | None:
    rates = RatesInForce(each.gpu_id for each in idle)
    costs = [rates.usd(each.gpu_id, each.start_ms, each.end_ms, each.held_ms) for each in idle]
    if None in costs:
        return None
    return sum((pricing.usd(cost) for cost in costs if cost is not None), Decimal(0))
