"""What idles now, GPU by GPU."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from fleetwatch.costs.mapping.attribution import into_teams
from fleetwatch.costs.rates.rates_in_force import RatesInForce
from fleetwatch.dashboard.idle_before import LOOKS_BACK_MS, IdleBefore, idle_before
from fleetwatch.figures import pricing
from fleetwatch.figures.fleet_now import CURRENT_RUN_MS, idle_now
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.selectors import RunSpan, runs
from fleetwatch.lib.intervals import to_ms


@dataclass(frozen=True, slots=True)
class IdleGPU:
    """A GPU that idles now under these jobs (of a shared GPU several), and since when the first of
    them does.
    """

    gpu: GPU
    jobs: list[Job]
    since_ms: int
    usd_per_hour: Decimal | None  # of what of it idles; None where no rate holds
    cost_usd: Decimal | None  # since then
    before: IdleBefore | None = None  # of the first of them, where a hole of data lies before it


def idle_gpus(now: datetime) -> list[IdleGPU]:
    """Every GPU that the overview counts as idle now, those first that idle longest."""
    usd_per_hour = idle_now(now)
    gpus = GPU.objects.select_related("node", "model").in_bulk(usd_per_hour)
    idle = _idle_runs(gpus, now)
    every = [each for of_gpu in idle.values() for each in of_gpu]
    jobs = _jobs(every, now)
    rates = RatesInForce(each.gpu_id for each in every)
    earlier = _earlier(every)
    lines = [
        IdleGPU(
            gpu=gpus[gpu_id],
            jobs=[jobs[each.job_id] for each in of_gpu if each.job_id],
            since_ms=min(each.start_ms for each in of_gpu),
            usd_per_hour=usd_per_hour[gpu_id],
            cost_usd=cost_usd(of_gpu, rates),
            before=_before(of_gpu, earlier),
        )
        for gpu_id, of_gpu in idle.items()
    ]
    return sorted(lines, key=lambda line: (line.since_ms, line.gpu.node.name, line.gpu.pk))


def _jobs(idle: Iterable[RunSpan], now: datetime) -> dict[int, Job]:
    """Whose the runs are, by id, each job with the team whose its time is now."""
    job_ids = {each.job_id for each in idle if each.job_id}
    jobs = into_teams(Job.objects.select_related("team").filter(pk__in=job_ids), before=now)
    return {job.pk: job for job in jobs}


def _idle_runs(gpu_ids: Collection[int], now: datetime) -> dict[int, list[RunSpan]]:
    """By physical GPU the idle runs that are its newest, or its instances'."""
    of_instance = dict(GPU.objects.filter(parent__in=gpu_ids).values_list("pk", "parent_id"))
    now_ms = to_ms(now)
    every = runs({*gpu_ids, *of_instance}, start_ms=now_ms - CURRENT_RUN_MS, end_ms=now_ms)
    newest_ms: dict[int, int] = {}
    for each in every:
        newest_ms[each.gpu_id] = max(each.end_ms, newest_ms.get(each.gpu_id, 0))
    idle: dict[int, list[RunSpan]] = {}
    for each in every:
        is_newest = each.end_ms == newest_ms[each.gpu_id]
        if is_newest and each.job_id and each.state_ms.get("idle"):
            idle.setdefault(of_instance.get(each.gpu_id, each.gpu_id), []).append(each)
    return idle


def _earlier(idle: Sequence[RunSpan]) -> dict[int, list[RunSpan]]:
    """By GPU what it did in the hours before the first of these runs."""
    if not idle:
        return {}
    start_ms = min(each.start_ms for each in idle) - LOOKS_BACK_MS
    end_ms = max(each.start_ms for each in idle)
    earlier: dict[int, list[RunSpan]] = defaultdict(list)
    for each in runs({each.gpu_id for each in idle}, start_ms=start_ms, end_ms=end_ms):
        earlier[each.gpu_id].append(each)
    return earlier


def _before(
    of_gpu: Iterable[RunSpan], earlier: Mapping[int, Sequence[RunSpan]]
) -> IdleBefore | None:
    first = min(of_gpu, key=lambda each: each.start_ms)
    return idle_before(first, earlier.get(first.gpu_id, ()))


def cost_usd(idle: Iterable[RunSpan], rates: RatesInForce) -> Decimal | None:
    """Of the runs together as far as they are judged, as incidents have it; None where one of them
    has no rate.
    """
    costs = [rates.usd(run.gpu_id, run.start_ms, run.end_ms, run.held_ms) for run in idle]
    if None in costs:
        return None
    return sum((pricing.usd(cost) for cost in costs if cost is not None), Decimal(0))
