"""What idles now, as the overview says it."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from fleetwatch.costs.attribution import into_teams
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.selectors import Scope
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.selectors import open_idle_runs
from fleetwatch.lib.intervals import Interval, from_ms, to_ms

LEAST_SHOWN_MS = 900_000


@dataclass(frozen=True, slots=True)
class LongestIdle:
    """The job with the GPU that idles longest; `gpu_count` counts its GPUs that idle now."""

    job: Job
    gpu: GPU
    gpu_count: int
    since_ms: int
    lasted_ms: int
    # of the job's idle time since then, by the ledger's hours; None without a rate
    cost_usd: Decimal | None


def longest_idle(now: datetime) -> LongestIdle | None:
    """What has been idle longest without a break, if for a quarter of an hour at least."""
    idle = open_idle_runs(now)
    first = min(idle, key=lambda each: (each.since_ms, each.gpu_id), default=None)
    if first is None or to_ms(now) - first.since_ms < LEAST_SHOWN_MS:
        return None
    [job] = into_teams([Job.objects.select_related("team").get(pk=first.job_id)], before=now)
    so_far = costs.totals(
        Interval(from_ms(first.since_ms), now), scope=Scope(job=job.key, states=("idle",))
    )
    return LongestIdle(
        job=job,
        gpu=GPU.objects.select_related("node").get(pk=first.gpu_id),
        gpu_count=sum(each.job_id == first.job_id for each in idle),
        since_ms=first.since_ms,
        lasted_ms=to_ms(now) - first.since_ms,
        cost_usd=so_far.cost_usd if so_far.unpriced_ms < so_far.capacity_ms else None,
    )
