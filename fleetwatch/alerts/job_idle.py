"""The condition job_idle: jobs that hold GPUs and do nothing with them, by the ledger's runs, in
event time.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

from django.db import connection

from fleetwatch.alerts.idle_job import Facts, IdleGPU
from fleetwatch.costs.attribution import into_teams
from fleetwatch.costs.models import GPURate
from fleetwatch.figures import pricing
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import GPUProcess, Job
from fleetwatch.jobs.scheduled import ended_by, granted_gpus, reaches_beyond
from fleetwatch.ledger import selectors as ledger
from fleetwatch.ledger.models import Run
from fleetwatch.ledger.selectors import RunSpan
from fleetwatch.lib.intervals import from_ms, to_ms
from fleetwatch.lib.sql import read_statement

_OPEN_QUIET_PARTS = read_statement(Path(__file__).parent / "sql" / "open_quiet_parts.sql")

MINUTE_MS = 60_000
MAX_PIDS = 8
# agents flush each 30 s and posting follows each minute: beyond this nothing is coming in
STALE_MS = 10 * MINUTE_MS
# a GPU's newest window may lie this far behind its node's newest sign of life
EDGE_MS = 5 * MINUTE_MS
FORGET = timedelta(hours=24)  # what nobody saw for a day is neither opened nor kept open
ACTIVE_CONDITIONS = ("active", "spinning")

AGAIN_ACTIVE = "the GPUs are active again"
ALLOCATION_ENDED = "the allocation ended"
UNAVAILABLE = "the GPU became unavailable"
BELOW_THRESHOLD = "it is no longer idle for as long as the rule says"
# of several GPUs the first one counts
REASONS = (AGAIN_ACTIVE, ALLOCATION_ENDED, UNAVAILABLE, BELOW_THRESHOLD)
NO_LONGER_SEEN = "no longer seen: no data for 24 hours, or the GPU was retired"


@dataclass(frozen=True, slots=True)
class Ended:
    """The breach is over: why, and the facts as they stood when it ended."""

    reason: str
    facts: Facts


def breaches(threshold_minutes: float, now: datetime) -> list[Facts]:
    """Each job with at least one GPU that is idle since `threshold_minutes` at least, where
    telemetry ends.

    Missing telemetry lengthens nothing: a run is as long as it was observed. What nobody saw
    for a day, a retired GPU and a job that is known to have ended are left out.
    """
    runs = [
        run
        for run in _open_quiet_runs(now)
        if run.state_ms.get("idle") and run.duration_ms >= threshold_minutes * MINUTE_MS
    ]
    gpus = (
        GPU.objects.select_related("node", "model")
        .filter(retired_ms=None)
        .in_bulk([run.gpu_id for run in runs])
    )
    held_by = Job.objects.select_related("team").filter(pk__in={run.job_id for run in runs})
    jobs = {job.pk: job for job in into_teams(held_by, before=now)}
    rates = _rates(gpus)
    idle: dict[int, list[IdleGPU]] = defaultdict(list)
    for run in runs:
        job = jobs.get(run.job_id) if run.job_id is not None else None
        if job is not None and run.gpu_id in gpus and not _is_over(job, run.end_ms):
            idle[job.pk].append(_idle_gpu(run, gpus[run.gpu_id], rates.get(run.gpu_id, [])))
    held = _held_gpus(idle)
    node_of = dict(
        GPU.objects.filter(pk__in=set().union(*held.values())).values_list("pk", "node_id")
    )
    pids = _pids(idle)
    return [
        _facts(
            jobs[job_id],
            found,
            [node_of[gpu_id] for gpu_id in held[job_id]],
            pids[job_id],
            threshold_minutes,
        )
        for job_id, found in idle.items()
    ]


def ended(facts: Facts, now: datetime) -> Ended | None:
    """Why a breach that `breaches` no longer lists is over; None when nobody can know: telemetry is
    missing.
    """
    job = Job.objects.filter(key=facts.job_key).first()
    if job is None:
        return Ended(ALLOCATION_ENDED, facts)
    gpus = GPU.objects.select_related("node", "model").in_bulk([gpu.gpu_id for gpu in facts.gpus])
    runs = _runs_seen(gpus, facts, now)
    reasons = [
        _reason(gpu, [run for run in runs[gpu.gpu_id] if run.end_ms > gpu.since_ms], job, now)
        for gpu in facts.gpus
    ]
    known = [reason for reason in reasons if reason is not None]
    if len(known) < len(reasons):
        return Ended(NO_LONGER_SEEN, facts) if _is_forgotten(facts, gpus, runs, now) else None
    return Ended(min(known, key=REASONS.index), _closing(facts, gpus, runs, job.pk))


def no_data_since_ms(facts: Facts, now: datetime) -> int | None:
    """Since when nothing was seen of the idle GPUs; None while data comes in."""
    return facts.until_ms if facts.until_ms < to_ms(now) - STALE_MS else None


def _open_quiet_runs(now: datetime) -> list[RunSpan]:
    """The runs, each whole, of held GPUs that are quiet up to where their node's telemetry ends, a
    day ago at most.
    """
    with connection.cursor() as cursor:
        cursor.execute(_OPEN_QUIET_PARTS, {"since_ms": to_ms(now - FORGET), "edge_ms": EDGE_MS})
        parts = cursor.fetchall()
    if not parts:
        return []
    newest = {
        (gpu_id, job_id): end_ms
        for gpu_id, job_id, _, end_ms in sorted(parts, key=lambda part: part[3])
    }
    start_ms, end_ms = min(part[2] for part in parts), max(part[3] for part in parts)
    found = ledger.runs(
        {part[0] for part in parts}, start_ms=start_ms, end_ms=end_ms, conditions=("quiet",)
    )
    return [run for run in found if newest.get((run.gpu_id, run.job_id or 0)) == run.end_ms]


def _runs_seen(gpus: Iterable[int], facts: Facts, now: datetime) -> dict[int, list[RunSpan]]:
    """By GPU, every run since it became idle in which it was seen."""
    runs: dict[int, list[RunSpan]] = defaultdict(list)
    for run in ledger.runs(list(gpus), start_ms=facts.since_ms, end_ms=to_ms(now)):
        if run.condition != "unobserved":
            runs[run.gpu_id].append(run)
    return runs


def _is_over(job: Job, moment_ms: int) -> bool:
    """Whether the job is known to have ended by then."""
    return job.end_ms is not None and job.end_ms <= moment_ms


def _is_forgotten(
    facts: Facts, gpus: Mapping[int, GPU], runs: Mapping[int, list[RunSpan]], now: datetime
) -> bool:
    """Whether nothing was seen of the GPUs for a day, or all of them are retired."""
    is_retired = all(
        gpu.gpu_id not in gpus or gpus[gpu.gpu_id].retired_ms is not None for gpu in facts.gpus
    )
    newest_ms = max([facts.until_ms, *(run.end_ms for found in runs.values() for run in found)])
    return is_retired or newest_ms <= to_ms(now - FORGET)


def _reason(gpu: IdleGPU, seen: list[RunSpan], job: Job, now: datetime) -> str | None:
    """What became of one idle GPU; None when nothing newer was seen of it."""
    if any(run.job_id == job.pk and run.condition in ACTIVE_CONDITIONS for run in seen):
        return AGAIN_ACTIVE
    newest = max(seen, key=lambda run: (run.end_ms, run.job_id == job.pk), default=None)
    if _is_over(job, gpu.until_ms if newest is None else newest.end_ms):
        return ALLOCATION_ENDED
    if newest is None:
        return None
    if newest.condition == "unavailable":
        return UNAVAILABLE
    if newest.job_id != job.pk:
        return ALLOCATION_ENDED
    return BELOW_THRESHOLD if newest.end_ms >= to_ms(now) - STALE_MS else None


def _closing(
    facts: Facts, gpus: Mapping[int, GPU], runs: Mapping[int, list[RunSpan]], job_id: int
) -> Facts:
    """The facts with each GPU's quiet run as it stood at its end."""
    rates = _rates(gpus)
    closed = []
    for gpu in facts.gpus:
        quiet = [
            run
            for run in runs[gpu.gpu_id]
            if run.job_id == job_id
            and run.condition == "quiet"
            and run.start_ms <= gpu.since_ms < run.end_ms
        ]
        closed.append(
            _idle_gpu(quiet[-1], gpus[gpu.gpu_id], rates.get(gpu.gpu_id, [])) if quiet else gpu
        )
    return replace(facts, gpus=tuple(closed))


def _held_gpus(idle: Mapping[int, list[IdleGPU]]) -> dict[int, set[int]]:
    """By job, the GPUs that it held when its idle ones were last seen, those that nobody sees since
    among them.
    """
    until_ms = {job_id: max(gpu.until_ms for gpu in gpus) for job_id, gpus in idle.items()}
    held = {job_id: {gpu.gpu_id for gpu in gpus} for job_id, gpus in idle.items()}
    since_ms = min(until_ms.values(), default=0)
    for job_id, gpu_ids in ledger.still_held(
        until_ms, since_ms=to_ms(from_ms(since_ms) - FORGET)
    ).items():
        held[job_id] |= gpu_ids
    recent = Run.objects.filter(job_id__in=list(idle), end_ms__gt=since_ms - STALE_MS)
    for job_id, gpu_id, start_ms, end_ms in recent.values_list(
        "job_id", "gpu_id", "start_ms", "end_ms"
    ):
        if (
            job_id is not None
            and start_ms < until_ms[job_id]
            and end_ms > until_ms[job_id] - STALE_MS
        ):
            held[job_id].add(gpu_id)
    return held


def _pids(idle: Mapping[int, list[IdleGPU]]) -> dict[int, set[int]]:
    """By job, its processes on these GPUs that were seen shortly before telemetry ends."""
    pids: dict[int, set[int]] = defaultdict(set)
    until_ms = {(job_id, gpu.gpu_id): gpu.until_ms for job_id, gpus in idle.items() for gpu in gpus}
    known = GPUProcess.objects.filter(job__in=list(idle)).values_list(
        "job_id", "gpu_id", "pid", "seen_ms"
    )
    for job_id, gpu_id, pid, seen_ms in known:
        if job_id is not None and seen_ms > until_ms.get((job_id, gpu_id), seen_ms) - STALE_MS:
            pids[job_id].add(pid)
    return pids


def _facts(
    job: Job, gpus: list[IdleGPU], nodes: list[int], pids: set[int], threshold_minutes: float
) -> Facts:
    """`nodes`: of each GPU that the job is seen to hold, its node."""
    return Facts(
        job_key=job.key,
        job_name=job.name,
        user=job.user,
        team=job.team.slug if job.team else "",
        scheduler=job.scheduler,
        external_id=ended_by(job.external_id, job.labels),
        job_gpus=max(len(nodes), granted_gpus(job.labels)),
        threshold_minutes=threshold_minutes,
        gpus=tuple(
            sorted(
                gpus, key=lambda gpu: (gpu.node, -1 if gpu.index is None else gpu.index, gpu.uuid)
            )
        ),
        kind=job.kind,
        pids=tuple(sorted(pids)[:MAX_PIDS]),
        reaches_beyond=reaches_beyond(job.labels, gpus=len(nodes), nodes=len(set(nodes))),
    )


def _idle_gpu(run: RunSpan, gpu: GPU, rates: list[GPURate]) -> IdleGPU:
    weighted_ms = sum(run.state_ms.values())
    cost, per_hour = _cost(run, weighted_ms, rates), None
    latest = [
        rate
        for rate in rates
        if rate.valid_from < from_ms(run.end_ms)
        and (rate.valid_to is None or rate.valid_to >= from_ms(run.end_ms))
    ]
    if latest:
        per_hour = pricing.usd(latest[-1].usd_per_gpu_hour * weighted_ms / run.duration_ms)
    return IdleGPU(
        gpu_id=gpu.pk,
        uuid=gpu.uuid,
        node=gpu.node.name,
        index=gpu.index,
        model=gpu.model.name if gpu.model else gpu.model_name,
        mig_profile=gpu.mig_profile,
        since_ms=run.start_ms,
        until_ms=run.end_ms,
        memory_bytes=run.memory_used_bytes,
        cost_usd=None if cost is None else str(pricing.usd(cost)),
        usd_per_hour=None if per_hour is None else str(per_hour),
        has_example_rate=any(rate.is_example for rate in latest),
    )


def _cost(run: RunSpan, weighted_ms: int, rates: list[GPURate]) -> Decimal | None:
    """Dollars of the run at the rates that held during it; None when none did.

    `weighted_ms`: the holder's share of the time.
    """
    parts = []
    for rate in rates:
        start = max(run.start_ms, to_ms(rate.valid_from))
        end = run.end_ms if rate.valid_to is None else min(run.end_ms, to_ms(rate.valid_to))
        if start < end:
            parts.append((weighted_ms * (end - start) // run.duration_ms, rate.usd_per_gpu_hour))
    return pricing.cost_usd(parts) if parts else None


def _rates(gpu_ids: Iterable[int]) -> dict[int, list[GPURate]]:
    """Every rate of these GPUs, earliest first."""
    rates: dict[int, list[GPURate]] = defaultdict(list)
    for rate in GPURate.objects.filter(gpu_id__in=list(gpu_ids)).order_by("valid_from"):
        rates[rate.gpu_id].append(rate)
    return rates
