"""The condition job_idle: jobs that hold GPUs and do nothing with them, by the ledger's runs, in
event time.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from decimal import Decimal
from itertools import groupby
from typing import Any

import msgspec

from fleetwatch.alerts.breach import STALE_MS, Breach, Condition, Ended, named
from fleetwatch.costs.mapping.attribution import into_teams
from fleetwatch.costs.rates.rates_in_force import RatesInForce
from fleetwatch.diagnosis import shell
from fleetwatch.diagnosis.cause import EMPTY, HELD, PART
from fleetwatch.diagnosis.causes import OF_IDLE_JOBS, of_kind
from fleetwatch.diagnosis.findings.advice import PODS
from fleetwatch.figures import pricing
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import GPUProcess, Job
from fleetwatch.jobs.scheduled import ended_by, granted_gpus, reaches_beyond
from fleetwatch.ledger import selectors as ledger
from fleetwatch.ledger.models import Run
from fleetwatch.ledger.selectors import RunSpan
from fleetwatch.lib.intervals import from_ms, to_ms
from fleetwatch.lib.sql import execute, read_statement
from fleetwatch.notify import wording
from fleetwatch.notify.message import one_line

_OPEN_QUIET_PARTS = read_statement("alerts/sql/open_quiet_parts.sql")

MINUTE_MS = 60_000
MAX_PIDS = 8
# a GPU's newest window may lie this far behind its node's newest sign of life
EDGE_MS = 5 * MINUTE_MS
FORGET_MS = 24 * 60 * MINUTE_MS  # what nobody saw for a day is neither opened nor kept open
ACTIVE_CONDITIONS = ("active", "spinning")

AGAIN_ACTIVE = "the GPUs are active again"
ALLOCATION_ENDED = "the allocation ended"
UNAVAILABLE = "the GPU became unavailable"
BELOW_THRESHOLD = "it is no longer idle for as long as the rule says"
# of several GPUs the first one counts
REASONS = (AGAIN_ACTIVE, ALLOCATION_ENDED, UNAVAILABLE, BELOW_THRESHOLD)
NO_LONGER_SEEN = "no longer seen: no data for 24 hours, or the GPU was retired"

EMPTY_BYTES = 300 * 1024**2  # of a GPU: less than any context
NAMED_NODES = 4
# What may stand in a command that people copy: nothing that a shell reads.
PLAIN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-/]{0,252}", re.ASCII)
LOST = "What was not saved is lost: variables of a session, results since the last checkpoint."


@dataclass(frozen=True, slots=True)
class IdleGPU:
    """One idle GPU of the job, over [since_ms, until_ms) in event time: until_ms is where telemetry
    ends.

    Dollars are decimal strings; None = no rate, or not read.
    """

    gpu_id: int
    uuid: str
    node: str
    index: int | None
    model: str
    mig_profile: str
    since_ms: int
    until_ms: int
    memory_bytes: float | None
    cost_usd: str | None
    usd_per_hour: str | None
    has_example_rate: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """A job with at least one GPU idle for longer than the rule allows.

    `job_gpus` is how many it holds in all, `external_id` what ends it alone.
    """

    job_key: str
    job_name: str
    user: str
    team: str
    scheduler: str
    external_id: str
    job_gpus: int
    threshold_minutes: float
    gpus: tuple[IdleGPU, ...]
    kind: str = ""
    pids: tuple[int, ...] = ()  # of its processes on these GPUs
    reaches_beyond: bool = False  # its scheduler gave it more than the hub sees

    @property
    def since_ms(self) -> int:
        """Since when the longest idle GPU is."""
        return min(gpu.since_ms for gpu in self.gpus)

    @property
    def until_ms(self) -> int:
        """Up to when telemetry says so."""
        return max(gpu.until_ms for gpu in self.gpus)

    @property
    def nodes(self) -> list[str]:
        return sorted({gpu.node for gpu in self.gpus})

    @property
    def owner(self) -> str:
        """User and team, as far as they are known; "" when neither is."""
        return f"{self.user} ({self.team})" if self.user and self.team else self.user or self.team

    @property
    def memory_bytes(self) -> float | None:
        """Memory held on all of them; None when one was not read."""
        amounts = [gpu.memory_bytes for gpu in self.gpus]
        return None if None in amounts else sum(amount for amount in amounts if amount is not None)


def _sum(amounts: list[str | None]) -> Decimal | None:
    """None where one is not known."""
    if None in amounts:
        return None
    return sum((Decimal(amount) for amount in amounts if amount is not None), Decimal(0))


def breaches(threshold_minutes: float, now: datetime) -> list[Breach]:
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
    held_by = Job.objects.select_related("team").filter(pk__in={run.job_id for run in runs})
    jobs = {job.pk: job for job in into_teams(held_by, before=now)}
    idle = _idle_gpus(runs, jobs)
    held = _held_gpus(idle)
    held_ids = set().union(*held.values())
    node_of = dict(GPU.objects.filter(pk__in=held_ids).values_list("pk", "node_id"))
    pids = _pids(idle)
    return [
        breach(
            _facts(
                jobs[job_id],
                gpus,
                [node_of[gpu_id] for gpu_id in held[job_id]],
                pids[job_id],
                threshold_minutes,
            )
        )
        for job_id, gpus in idle.items()
    ]


def _idle_gpus(runs: Iterable[RunSpan], jobs: Mapping[int, Job]) -> dict[int, list[IdleGPU]]:
    """By job, what the runs say of GPUs that are not retired; of no job that is over."""
    gpus = (
        GPU.objects.select_related("node", "model")
        .filter(retired_ms=None)
        .in_bulk([run.gpu_id for run in runs])
    )
    rates = RatesInForce(gpus)
    idle: dict[int, list[IdleGPU]] = defaultdict(list)
    for run in runs:
        job = jobs.get(run.job_id or 0)
        if job is not None and run.gpu_id in gpus and not _is_over(job, run.end_ms):
            idle[job.pk].append(_idle_gpu(run, gpus[run.gpu_id], rates))
    return idle


def ended(before: Breach, now: datetime) -> Ended | None:
    """Why a breach that `breaches` no longer lists is over; None when nobody can know: telemetry is
    missing.
    """
    facts = msgspec.convert(before.facts, Facts)
    job = Job.objects.filter(key=facts.job_key).first()
    if job is None:
        return Ended(ALLOCATION_ENDED, before)
    gpus = GPU.objects.select_related("node", "model").in_bulk([gpu.gpu_id for gpu in facts.gpus])
    runs = _runs_seen(gpus, facts, now)
    reasons = []
    for gpu in facts.gpus:
        reason = _reason(gpu, runs[gpu.gpu_id], job, now)
        if reason is None:
            return Ended(NO_LONGER_SEEN, before) if _is_forgotten(facts, gpus, runs, now) else None
        reasons.append(reason)
    closed = _closing(facts, gpus, runs, job.pk)
    return Ended(min(reasons, key=REASONS.index), breach(closed))


def breach(facts: Facts) -> Breach:
    """What is told of the idle job."""
    where = places(facts)
    how_many = _how_many(facts)
    return Breach(
        subject=facts.job_key,
        kind="job",
        since_ms=facts.since_ms,
        until_ms=facts.until_ms,
        word="idle",
        tag="idle held",
        title=f"idle · {where}{_models(facts)}",
        where=where,
        what=f"{how_many} of job {named(facts.job_key, facts.job_name)} did nothing",
        had=f"{how_many} had been idle",
        limit=f"idle ≥ {facts.threshold_minutes:g} min",
        name=facts.job_name,
        owner=facts.owner,
        usd_per_hour=_sum([gpu.usd_per_hour for gpu in facts.gpus]),
        cost_usd=_sum([gpu.cost_usd for gpu in facts.gpus]),
        has_example_rates=any(gpu.has_example_rate for gpu in facts.gpus),
        memory_bytes=facts.memory_bytes,
        lines=(("Memory held", wording.gigabytes(facts.memory_bytes)),),
        actions=(_fix(facts), _alike(facts)),
        facts=asdict(facts),
    )


def read(stored: Mapping[str, Any]) -> Breach:
    """The breach of a row that holds the facts alone."""
    return breach(msgspec.convert(stored, Facts))


def _open_quiet_runs(now: datetime) -> list[RunSpan]:
    """The runs, each whole, of held GPUs that are quiet up to where their node's telemetry ends, a
    day ago at most.
    """
    parts = execute(_OPEN_QUIET_PARTS, {"since_ms": to_ms(now) - FORGET_MS, "edge_ms": EDGE_MS})
    if not parts:
        return []
    newest = {(gpu_id, job_id): end_ms for gpu_id, job_id, _, end_ms in parts}
    gpu_ids, _, starts_ms, ends_ms = zip(*parts, strict=True)
    runs = ledger.runs(
        set(gpu_ids), start_ms=min(starts_ms), end_ms=max(ends_ms), conditions=("quiet",)
    )
    return [run for run in runs if newest.get((run.gpu_id, run.job_id or 0)) == run.end_ms]


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
    ends_ms = [run.end_ms for seen in runs.values() for run in seen]
    return is_retired or max([facts.until_ms, *ends_ms]) <= to_ms(now) - FORGET_MS


def _reason(gpu: IdleGPU, runs: list[RunSpan], job: Job, now: datetime) -> str | None:
    """What became of one idle GPU; None when nothing newer was seen of it."""
    seen = [run for run in runs if run.end_ms > gpu.since_ms]
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
    rates = RatesInForce(gpus)
    closed = []
    for gpu in facts.gpus:
        quiet = [
            run
            for run in runs[gpu.gpu_id]
            if run.job_id == job_id
            and run.condition == "quiet"
            and run.start_ms <= gpu.since_ms < run.end_ms
        ]
        closed.append(_idle_gpu(quiet[-1], gpus[gpu.gpu_id], rates) if quiet else gpu)
    return replace(facts, gpus=tuple(closed))


def _held_gpus(idle: Mapping[int, list[IdleGPU]]) -> dict[int, set[int]]:
    """By job, the GPUs that it held when its idle ones were last seen, those that nobody sees since
    among them.
    """
    until_ms = {job_id: max(gpu.until_ms for gpu in gpus) for job_id, gpus in idle.items()}
    held = {job_id: {gpu.gpu_id for gpu in gpus} for job_id, gpus in idle.items()}
    first_ms = min(until_ms.values(), default=0)
    for job_id, gpu_ids in ledger.still_held(until_ms, since_ms=first_ms - FORGET_MS).items():
        held[job_id] |= gpu_ids
    recent = Run.objects.filter(job_id__in=idle, end_ms__gt=first_ms - STALE_MS)
    for job_id, gpu_id, start_ms, end_ms in recent.values_list(
        "job_id", "gpu_id", "start_ms", "end_ms"
    ):
        if job_id and start_ms < until_ms[job_id] < end_ms + STALE_MS:
            held[job_id].add(gpu_id)
    return held


def _pids(idle: Mapping[int, list[IdleGPU]]) -> dict[int, set[int]]:
    """By job, its processes on these GPUs that were seen shortly before telemetry ends."""
    pids: dict[int, set[int]] = defaultdict(set)
    until_ms = {(job_id, gpu.gpu_id): gpu.until_ms for job_id, gpus in idle.items() for gpu in gpus}
    processes = GPUProcess.objects.filter(job__in=list(idle))
    for job_id, gpu_id, pid, seen_ms in processes.values_list("job_id", "gpu_id", "pid", "seen_ms"):
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
        gpus=tuple(sorted(gpus, key=_place)),
        kind=job.kind,
        pids=tuple(sorted(pids)[:MAX_PIDS]),
        reaches_beyond=reaches_beyond(job.labels, gpus=len(nodes), nodes=len(set(nodes))),
    )


def _idle_gpu(run: RunSpan, gpu: GPU, rates: RatesInForce) -> IdleGPU:
    weighted_ms = sum(run.state_ms.values())
    cost = rates.usd(run.gpu_id, run.start_ms, run.end_ms, weighted_ms)
    latest = rates.at(run.gpu_id, from_ms(run.end_ms - 1))
    per_hour = None
    if latest is not None:
        per_hour = pricing.usd(latest.usd_per_gpu_hour * weighted_ms / run.duration_ms)
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
        has_example_rate=latest is not None and latest.is_example,
    )


def places(facts: Facts) -> str:
    """The idle GPUs by node, e.g. "node-014 GPU 3, 4"; beyond four nodes only how many."""
    by_node = groupby(sorted(facts.gpus, key=_place), key=lambda gpu: gpu.node)
    named = [
        f"{one_line(node, 60)} GPU {', '.join(_gpu(gpu) for gpu in gpus)}" for node, gpus in by_node
    ]
    rest = len(named) - NAMED_NODES
    return "; ".join(named[:NAMED_NODES]) + (f"; {rest} more nodes" if rest > 0 else "")


def _place(gpu: IdleGPU) -> tuple[str, int, str]:
    return (gpu.node, -1 if gpu.index is None else gpu.index, gpu.uuid)


def _gpu(gpu: IdleGPU) -> str:
    number = one_line(gpu.uuid, 20) if gpu.index is None else str(gpu.index)
    return f"{number} ({one_line(gpu.mig_profile, 20)})" if gpu.mig_profile else number


def _models(facts: Facts) -> str:
    models = sorted({one_line(gpu.model, 40) for gpu in facts.gpus if gpu.model})
    return f" ({', '.join(models)})" if models else ""


def _how_many(facts: Facts) -> str:
    idle = len(facts.gpus)
    held = max(facts.job_gpus, idle)
    if facts.reaches_beyond and idle == held:
        return f"{idle} GPU{'s' * (idle > 1)}"
    if held == 1:
        return "The only GPU"
    return f"All {held} GPUs" if idle == held else f"{idle} of {held} GPUs"


def _alike(facts: Facts) -> str:
    """What looks the same, and what would tell it apart; "" where nothing does."""
    memory = facts.memory_bytes
    if facts.reaches_beyond or facts.job_gpus > len(facts.gpus):
        sort = PART
    elif memory is not None and memory <= EMPTY_BYTES * len(facts.gpus):
        sort = EMPTY
    else:
        sort = HELD
    cause = of_kind(OF_IDLE_JOBS[sort], facts.kind)
    return " ".join([cause.alike, *(step.text for step in cause.tell)]).strip()


def _fix(facts: Facts) -> str:
    """What to do, and what it costs: a job that works on other GPUs is not to be ended, nor a
    service that rests.
    """
    others = facts.job_gpus - len(facts.gpus)
    if others > 0:
        which = "its other GPU is" if others == 1 else f"its other {others} GPUs are"
        return (
            f"Fix: let the job run, {which} not known to be idle. Start one process per GPU, or ask"
            " for fewer GPUs next time."
        )
    if facts.reaches_beyond:
        return (
            "Fix: let the job run, it holds more than is seen of it here. Look at its other nodes,"
            " or ask for fewer GPUs next time."
        )
    if facts.kind == "service":
        return (
            "Fix: see whether somebody still uses the service; if not, take it down: requests fail"
            " from then on."
        )
    command = _ending(facts)
    pods = f" {PODS.text}" if command.startswith(shell.DELETE_POD) else ""
    return f"Fix: {command or 'end the job'}, or give the GPUs back. {LOST}{pods}"


def _ending(facts: Facts) -> str:
    """The command that ends the job; "" where none is known, or a name is not plain."""
    node = facts.nodes[0] if len(facts.nodes) == 1 else ""
    place = shell.Place(
        facts.scheduler, facts.external_id, facts.job_name, node=node, pids=facts.pids
    )
    named = facts.job_name if facts.scheduler == "kubernetes" else facts.external_id
    is_plain = all(PLAIN_ID.fullmatch(name) for name in (named, node or named))
    return shell.ending(place) if is_plain else ""


CONDITION = Condition(
    name="job_idle",
    label="Job idle for",
    asks="Idle for minutes",
    unit="minutes",
    low=1,
    high=7 * 24 * 60,
    breaches=breaches,
    ended=ended,
    read=read,
)
