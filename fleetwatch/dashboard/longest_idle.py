"""The job that idles longest, as the overview says it."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from fleetwatch.costs.mapping.attribution import into_teams
from fleetwatch.costs.rates.rates_in_force import RatesInForce
from fleetwatch.dashboard.idle import cost_usd
from fleetwatch.dashboard.idle_jobs import OpenIncident, open_incidents
from fleetwatch.figures.others_names import jobs_shown
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.selectors import RunSpan, open_idle_runs

LEAST_SHOWN_MS = 900_000


@dataclass(frozen=True, slots=True)
class LongestIdle:
    """The job with the GPU that idles longest; `gpu_count` counts its GPUs that idle now."""

    job: Job
    gpu: GPU
    gpu_count: int
    since_ms: int
    lasted_ms: int
    cost_usd: Decimal | None  # of its GPUs since then; None when one has no rate


class _IdleJob(NamedTuple):
    """What of a job idles now, and its open incident: that counts over short pauses, and time
    without data.
    """

    job: Job
    runs: Sequence[RunSpan]
    incident: OpenIncident | None

    @property
    def first(self) -> RunSpan:
        return min(self.runs, key=lambda run: (run.start_ms, run.gpu_id))

    @property
    def since_ms(self) -> int:
        return self.incident.since_ms if self.incident else self.first.start_ms

    @property
    def lasted_ms(self) -> int:
        return self.first.end_ms - self.since_ms

    @property
    def cost_usd(self) -> Decimal | None:
        if self.incident:
            return self.incident.cost_usd
        return cost_usd(self.runs, RatesInForce(run.gpu_id for run in self.runs))


def longest_idle(now: datetime, *, but: Collection[int]) -> LongestIdle | None:
    """What has been idle longest, if for a quarter of an hour at least, as far as it is judged; of
    all jobs but these. Since when, and for how many dollars, its open incident says, if any.
    """
    every = _idle_jobs(now, but)
    longest = min(every, key=lambda each: (each.since_ms, each.first.gpu_id), default=None)
    if longest is None or longest.lasted_ms < LEAST_SHOWN_MS:
        return None
    [job] = jobs_shown(into_teams([longest.job], before=now))
    return LongestIdle(
        job=job,
        gpu=GPU.objects.select_related("node").get(pk=longest.first.gpu_id),
        gpu_count=len(longest.runs),
        since_ms=longest.since_ms,
        lasted_ms=longest.lasted_ms,
        cost_usd=longest.cost_usd,
    )


def _idle_jobs(now: datetime, but: Collection[int]) -> list[_IdleJob]:
    of_job: dict[int, list[RunSpan]] = defaultdict(list)
    for run in open_idle_runs(now):
        if run.job_id and run.job_id not in but:
            of_job[run.job_id].append(run)
    if not of_job:
        return []
    jobs = Job.objects.select_related("team").in_bulk(of_job)
    incidents = open_incidents(jobs.values(), now)
    return [_IdleJob(job, of_job[pk], incidents.get(job.key)) for pk, job in jobs.items()]
