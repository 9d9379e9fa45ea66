"""The conditions job_idle and gpu_idle: jobs whose GPUs are held and do nothing, all of them or
some, by the ledger's runs.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial

import numpy as np
from msgspec import to_builtins

from fleetwatch.accounts.selectors import zone
from fleetwatch.alerts.breach import (
    SPELLS,
    STALE_MS,
    Breach,
    Condition,
    Line,
    Settings,
    Watch,
    Weight,
    named,
)
from fleetwatch.alerts.episodes import Episode, Level, Measured
from fleetwatch.alerts.measuring import job_lanes
from fleetwatch.alerts.measuring.cause_words import asked_first, code_of
from fleetwatch.alerts.measuring.gpu_places import amounts_sum, models, place_of, places, usd_sum
from fleetwatch.alerts.measuring.gpu_words import model_of
from fleetwatch.alerts.measuring.idle_again import idle_again
from fleetwatch.alerts.measuring.idle_ends import idle_ends, worked_before
from fleetwatch.alerts.measuring.idle_facts import Facts, IdleGPU
from fleetwatch.alerts.measuring.job_labels import cards_of, job_labels, owner_of
from fleetwatch.alerts.measuring.job_lanes import Counts, Ints, asked_spans
from fleetwatch.alerts.measuring.job_pauses import paused_in_words
from fleetwatch.costs.mapping.attribution import jobs_by_key
from fleetwatch.costs.rates.rates_in_force import RatesInForce
from fleetwatch.diagnosis import shell
from fleetwatch.diagnosis.cause import EMPTY, HELD, PART, Cause
from fleetwatch.diagnosis.causes import OF_IDLE_JOBS, of_kind
from fleetwatch.diagnosis.findings.advice import PODS
from fleetwatch.figures import pricing
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import GPUProcess, Job
from fleetwatch.jobs.scheduled import ended_by, granted_gpus, reaches_beyond
from fleetwatch.ledger.policy import FIGURES, STATES
from fleetwatch.lib.intervals import DAY_MS, MINUTE_MS, from_ms
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement
from fleetwatch.notify import wording

_IDLE_GPUS = read_statement("alerts/sql/idle_gpus.sql")
_HELD_GPUS = read_statement("alerts/sql/held_gpus.sql")

MAX_PIDS = 8
# a GPU's newest window may lie this far behind its node's newest sign of life
EDGE_MS = 5 * MINUTE_MS

EMPTY_BYTES = 300 * 1024**2  # of a GPU: less than any context
# What may stand in a command that people copy: nothing that a shell reads.
PLAIN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-/]{0,252}", re.ASCII)
# what ends with a job of that kind
LOST = {
    "batch": "What it did since its last checkpoint is lost.",
    "interactive": "What was not saved is lost: variables, open shells.",
}
LOST_OF_ANY = "What was not saved is lost."


@dataclass(frozen=True, slots=True)
class IdleTime:
    """For how long a GPU was idle within an episode; `held_ms` is the holder's share of it."""

    start_ms: int
    end_ms: int
    held_ms: int
    memory_bytes: float | None
    idle_ms: int


def measure(watch: Watch, levels: job_lanes.Levels, *, needed: int | None = None) -> Measured:
    """How each job with an idle GPU stood to the rule, by how many of its GPUs were idle; of these
    so many are `needed` (None: all).
    """
    parts = job_lanes.job_parts(watch, ("quiet",))
    idle = parts.within(("quiet",)) & (parts.is_idle > 0)
    active = parts.within(("active", "spinning"))
    # a pause that ended before it was idle: of one that goes on nobody knows yet
    paused = parts.within(("quiet",)) & (parts.is_idle == 0) & job_lanes.is_before(parts, active)
    measured = job_lanes.measured(parts.marked(idle, active | paused), levels, watch)
    whole = job_lanes.back_to_breach(parts, watch)
    return replace(
        measured,
        ends=worked_before(measured.ends, whole, watch, zone()),
        again=idle_again(whole, watch, needed),
        cleared_of=idle_ends(whole, watch, zone()),
    )


def all_idle(counts: Counts) -> Ints:
    """In breach where every GPU is idle, clear where one is active; one that nobody sees forbids to
    say either, and so does time in which the job is known to hold none.
    """
    silent = (counts.unseen > 0) | (counts.held == 0)
    return np.select(
        [counts.clear > 0, silent, counts.breaching == counts.held],
        [Level.CLEAR, job_lanes.UNKNOWN, Level.BREACH],
        Level.BETWEEN,
    )


def some_idle(counts: Counts, *, settings: Settings) -> Ints:
    """In breach where at least as many GPUs as the threshold are idle and another one is not known
    to be; clear where too many are active.
    """
    return np.select(
        [
            counts.held - counts.clear < settings.clear_at,
            counts.breaching == counts.held,
            counts.breaching >= settings.threshold,
            counts.unseen > 0,
        ],
        [Level.CLEAR, Level.BETWEEN, Level.BREACH, job_lanes.UNKNOWN],
        Level.BETWEEN,
    )


def describe(episodes: Sequence[Episode], watch: Watch) -> list[Breach | None]:
    """Of each episode which GPUs idle in it, whose they are, and what that costs; None where the
    job or its runs are gone.
    """
    jobs = jobs_by_key({each.subject for each in episodes}, before=from_ms(watch.end_ms))
    idle = _idle_gpus(episodes, jobs)
    job_of = {place: jobs[episodes[place].subject] for place in idle}
    facts = _facts_by_place(idle, job_of, watch)
    return [breach(facts[place]) if place in facts else None for place in range(len(episodes))]


def _facts_by_place(
    idle: Mapping[int, list[IdleGPU]], job_of: Mapping[int, Job], watch: Watch
) -> dict[int, Facts]:
    """Of each episode (its place) what is known of its job."""
    job_ids = {place: job.pk for place, job in job_of.items()}
    nodes = _held_nodes(idle, job_ids, watch)
    pids = _pids({job_ids[place]: gpus for place, gpus in idle.items()})  # of its last episode
    paused = paused_in_words(idle, job_ids, watch.settings.clear_minutes)
    facts = {
        place: _facts(job_of[place], gpus, nodes[place], pids[job_ids[place]], watch)
        for place, gpus in idle.items()
    }
    return {place: replace(each, pauses=paused.get(place, "")) for place, each in facts.items()}


def weigh(
    episodes: Sequence[Episode], watch: Watch, labels: Collection[str]
) -> list[Weight | None]:
    """Of each episode whose its job is, what its idle GPUs cost, and these labels."""
    jobs = jobs_by_key({each.subject for each in episodes}, before=from_ms(watch.end_ms))
    idle = _idle_at_end(episodes, jobs)
    rates = RatesInForce(_ids(idle))
    cards = cards_of(_gpus(idle)) if labels else {}
    weights: list[Weight | None] = [None] * len(episodes)
    for place, times in idle.items():
        job = jobs[episodes[place].subject]
        weights[place] = Weight(
            owner=owner_of(job),
            cost_usd=usd_sum([_usd(gpu_id, time, rates) for gpu_id, time in times]),
            labels=job_labels(job, (cards[gpu_id] for gpu_id, _ in times)) if labels else {},
        )
    return weights


def _held_nodes(
    idle: Mapping[int, list[IdleGPU]], job_ids: Mapping[int, int], watch: Watch
) -> dict[int, list[int]]:
    """Of each episode (its place) the node of each GPU that its job held in it."""
    held = _held_gpus(idle, job_ids, watch)
    gpus = GPU.objects.filter(pk__in=set().union(*held.values()))
    node_of = dict(gpus.values_list("pk", "node_id"))
    return {place: [node_of[gpu_id] for gpu_id in gpu_ids] for place, gpu_ids in held.items()}


def _idle_gpus(episodes: Sequence[Episode], jobs: Mapping[str, Job]) -> dict[int, list[IdleGPU]]:
    """Of each episode (its place) the GPUs that are idle where it ends."""
    idle = _idle_at_end(episodes, jobs)
    gpus = _gpus(idle)
    rates = RatesInForce(gpus)
    return {
        place: [_idle_gpu(time, gpus[gpu_id], rates) for gpu_id, time in times]
        for place, times in idle.items()
    }


def _ids(idle: Mapping[int, list[tuple[int, IdleTime]]]) -> set[int]:
    return {gpu_id for times in idle.values() for gpu_id, _ in times}


def _gpus(idle: Mapping[int, list[tuple[int, IdleTime]]]) -> dict[int, GPU]:
    return GPU.objects.select_related("node", "model").in_bulk(_ids(idle))


def _idle_at_end(
    episodes: Sequence[Episode], jobs: Mapping[str, Job]
) -> dict[int, list[tuple[int, IdleTime]]]:
    """Of each episode (its place) the GPUs that are idle where it ends, and for how long they
    were.
    """
    idle: dict[int, list[tuple[int, IdleTime]]] = defaultdict(list)
    for place, gpu_id, time in _idle_times(episodes, jobs):
        if time.end_ms > episodes[place].until_ms - EDGE_MS:
            idle[place].append((gpu_id, time))
    return idle


def _idle_times(
    episodes: Sequence[Episode], jobs: Mapping[str, Job]
) -> list[tuple[int, int, IdleTime]]:
    """Of each episode (its place) and GPU for how long it was idle."""
    asked = asked_spans(episodes, jobs) | {
        "idle": STATES.index("idle") + 1,
        "memory_ms": FIGURES.index("memory_used_bytes_ms") + 1,
        "memory_sum": FIGURES.index("memory_used_bytes_sum") + 1,
    }
    return [
        (place - 1, gpu_id, IdleTime(*times))
        for place, gpu_id, *times in fetched(_IDLE_GPUS, asked)
    ]


def _held_gpus(
    idle: Mapping[int, list[IdleGPU]], job_ids: Mapping[int, int], watch: Watch
) -> dict[int, set[int]]:
    """Of each episode (its place) the GPUs that its job held when its idle ones were last seen, and
    those on nodes that nobody heard since.
    """
    until_ms = {place: max(gpu.until_ms for gpu in gpus) for place, gpus in idle.items()}
    held = _seen_gpus(job_ids, until_ms)
    silent = _silent_gpus(set(job_ids.values()), watch)
    for place, gpus in idle.items():
        lost = silent[job_ids[place]].items()
        held[place] |= {gpu.gpu_id for gpu in gpus}
        held[place] |= {gpu_id for gpu_id, lost_ms in lost if lost_ms <= until_ms[place]}
    return held


def _seen_gpus(job_ids: Mapping[int, int], until_ms: Mapping[int, int]) -> dict[int, set[int]]:
    """Of each episode (its place) the GPUs that its job held at that moment."""
    places = list(job_ids)
    asked = {
        "job_ids": [job_ids[place] for place in places],
        "until_ms": [until_ms[place] for place in places],
        "stale_ms": STALE_MS,
    }
    seen: dict[int, set[int]] = defaultdict(set)
    for number, gpu_id in fetched(_HELD_GPUS, asked):
        seen[places[number - 1]].add(gpu_id)
    return seen


def _silent_gpus(job_ids: Collection[int], watch: Watch) -> dict[int, dict[int, int]]:
    """By job, its GPUs on nodes that nobody heard lately, and from when on."""
    silent: dict[int, dict[int, int]] = defaultdict(dict)
    since_ms = watch.end_ms - DAY_MS
    unheard_ms = watch.end_ms - STALE_MS
    asked = np.array(sorted(job_ids), dtype=np.int64)
    lost = job_lanes.silent_lanes(asked, since_ms, unheard_ms=unheard_ms)
    for (job_id, gpu_id), lost_ms in lost.items():
        silent[job_id][gpu_id] = lost_ms
    return silent


def _pids(idle: Mapping[int, list[IdleGPU]]) -> dict[int, set[int]]:
    """By job, its processes on these GPUs that were seen shortly before telemetry ends."""
    pids: dict[int, set[int]] = defaultdict(set)
    until_ms = {(job_id, gpu.gpu_id): gpu.until_ms for job_id, gpus in idle.items() for gpu in gpus}
    processes = GPUProcess.objects.filter(job__in=list(idle))
    for job_id, gpu_id, pid, seen_ms in processes.values_list("job_id", "gpu_id", "pid", "seen_ms"):
        if job_id is not None and seen_ms > until_ms.get((job_id, gpu_id), seen_ms) - STALE_MS:
            pids[job_id].add(pid)
    return pids


def _facts(job: Job, gpus: list[IdleGPU], nodes: list[int], pids: set[int], watch: Watch) -> Facts:
    """`nodes`: of each GPU that the job is seen to hold, its node."""
    return Facts(
        job_key=job.key,
        job_name=job.name,
        user=job.user,
        team=job.team.slug if job.team else "",
        cluster=job.cluster,
        scheduler=job.scheduler,
        external_id=ended_by(job.external_id, job.labels),
        job_gpus=max(len(nodes), granted_gpus(job.labels)),
        minutes=watch.settings.minutes,
        gpus=tuple(sorted(gpus, key=place_of)),
        labels=job_labels(job, gpus),
        kind=job.kind,
        pids=tuple(sorted(pids)[:MAX_PIDS]),
        reaches_beyond=reaches_beyond(job.labels, gpus=len(nodes), nodes=len(set(nodes))),
    )


def _idle_gpu(time: IdleTime, gpu: GPU, rates: RatesInForce) -> IdleGPU:
    cost = _usd(gpu.pk, time, rates)
    latest = rates.at(gpu.pk, from_ms(time.end_ms - 1))
    per_hour = None
    if latest is not None:
        share = Decimal(time.held_ms) / time.idle_ms  # of what it costs while it is idle
        per_hour = pricing.usd(latest.usd_per_gpu_hour * share)
    return IdleGPU(
        gpu_id=gpu.pk,
        uuid=gpu.uuid,
        node=gpu.node.name,
        index=gpu.index,
        model=model_of(gpu),
        mig_profile=gpu.mig_profile,
        since_ms=time.start_ms,
        until_ms=time.end_ms,
        memory_bytes=time.memory_bytes,
        cost_usd=None if cost is None else str(cost),
        usd_per_hour=None if per_hour is None else str(per_hour),
        has_example_rate=latest is not None and latest.is_example,
        idle_ms=time.idle_ms,
    )


def _usd(gpu_id: int, time: IdleTime, rates: RatesInForce) -> Decimal | None:
    """Dollars of the holder's share of the time; None where the GPU had no rate."""
    cost = rates.usd(gpu_id, time.start_ms, time.end_ms, time.held_ms)
    return None if cost is None else pricing.usd(cost)


def breach(facts: Facts) -> Breach:
    """What is told of the idle job."""
    where = places(facts.gpus)
    actions, command = _advice(facts)
    return Breach(
        subject=facts.job_key,
        kind="job",
        since_ms=facts.since_ms,
        until_ms=facts.until_ms,
        word="idle",
        tag="idle",
        title=f"idle · {where}{models(facts.gpus)}",
        where=where,
        what=f"{_of_job(facts)} did nothing",
        does=_does(facts),
        has=_has(facts),
        had=f"{_how_many(facts)} had been idle",
        limit=f"idle ≥ {facts.minutes:g} min",
        name=facts.job_name,
        owner=facts.owner,
        usd_per_hour=amounts_sum(gpu.usd_per_hour for gpu in facts.gpus),
        cost_usd=amounts_sum(gpu.cost_usd for gpu in facts.gpus),
        counted_until_ms=facts.counted_until_ms,
        has_example_rates=any(gpu.has_example_rate for gpu in facts.gpus),
        memory_bytes=facts.memory_bytes,
        lines=(*_spells(facts), ("Memory held", wording.gigabytes(facts.memory_bytes))),
        actions=actions,
        command=command,
        codes=_codes(facts),
        labels=facts.labels,
        facts=to_builtins(facts),
    )


def _spells(facts: Facts) -> tuple[Line, ...]:
    """How much of the time it was idle, where that is not all of it, and what it did meanwhile."""
    return ((SPELLS, facts.pauses),) if facts.pauses else ()


def _of_job(facts: Facts) -> str:
    return f"{_how_many(facts)} of job {named(facts.job_key, facts.job_name)}"


def _does(facts: Facts) -> str:
    return f"{_of_job(facts)} {'does' if len(facts.gpus) == 1 else 'do'} nothing"


def _has(facts: Facts) -> str:
    return f"{_of_job(facts)} {'has' if len(facts.gpus) == 1 else 'have'} been idle"


def _how_many(facts: Facts) -> str:
    idle = len(facts.gpus)
    held = max(facts.job_gpus, idle)
    if facts.reaches_beyond and idle == held:
        return f"{idle} GPU{'s' * (idle > 1)}"
    if held == 1:
        return "The only GPU"
    return f"{wording.all_of(held).capitalize()} GPUs" if idle == held else f"{idle} of {held} GPUs"


def _advice(facts: Facts) -> tuple[tuple[str, ...], str]:
    """What to do and what looks the same, and the command to copy; "" where none helps."""
    ending = _ending(facts)
    command = ending if _may_end(facts) else ""
    actions = (_fix(facts, ending), _alike(facts))
    return (_ask(facts), *actions) if command and _is_session(facts) else actions, command


def _ask(facts: Facts) -> str:
    return asked_first(facts.owner, named(facts.job_key, facts.job_name))


def _is_session(facts: Facts) -> bool:
    """Whether a person may need it though it rests: its owner knows."""
    return facts.kind == "interactive" and not _is_empty(facts)


def _alike(facts: Facts) -> str:
    """What looks the same, and what tells it apart, with what to type; "" where nothing does."""
    cause = _cause(facts)
    tell = (f"{step.text} {code_of(step)}".strip() for step in cause.tell)
    return " ".join([cause.alike, *tell]).strip()


def _codes(facts: Facts) -> tuple[str, ...]:
    """What its actions say to type, but for what ends it."""
    codes = (_fewer(facts), *(code_of(step) for step in _cause(facts).tell))
    return tuple(filter(None, codes))


def _fewer(facts: Facts) -> str:
    """What asks Slurm for as many GPUs as work, of a job on one node; "" of others."""
    others = facts.job_gpus - len(facts.gpus)
    is_known = facts.scheduler == "slurm" and len(facts.nodes) == 1 and not facts.reaches_beyond
    return f"#SBATCH --gres=gpu:{others}" if others > 0 and is_known else ""


def _cause(facts: Facts) -> Cause:
    """What diagnosis calls such a job, as far as its GPUs tell."""
    if facts.reaches_beyond or facts.job_gpus > len(facts.gpus):
        sort = PART
    elif _is_empty(facts):
        sort = EMPTY
    else:
        sort = HELD
    return of_kind(OF_IDLE_JOBS[sort], facts.kind)


def _is_empty(facts: Facts) -> bool:
    """Whether no process of it is on its GPUs, as far as their memory says."""
    memory = facts.memory_bytes
    return memory is not None and memory <= EMPTY_BYTES * len(facts.gpus)


def _fix(facts: Facts, ending: str) -> str:
    """What to do, and what it costs: a job that works on other GPUs is not to be ended, nor a
    service that rests.
    """
    others = facts.job_gpus - len(facts.gpus)
    if others > 0:
        fewer = _fewer(facts)
        which = "its other GPU is" if others == 1 else f"its other {others} GPUs are"
        return (
            f"Fix: let the job run, {which} not known to be idle. Start one process per GPU, or ask"
            f" for fewer GPUs next time{(fewer and f': {fewer}') or '.'}"
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
    # what ran nothing has nothing to lose
    lost = "" if _is_empty(facts) else f" {LOST.get(facts.kind, LOST_OF_ANY)}"
    pods = f" {PODS.text}" if ending.startswith(shell.DELETE_POD) else ""
    return f"Fix: {ending or 'end the job'}, or give the GPUs back.{lost}{pods}"


def _may_end(facts: Facts) -> bool:
    """Whether to end the job is what helps: it works nowhere, and nobody waits for its answers."""
    return not (facts.job_gpus > len(facts.gpus) or facts.reaches_beyond or facts.kind == "service")


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
    label="Job idle",
    sentence="Fires when every GPU of a job has been idle for {minutes} minutes.",
    kind="job",
    unit="",
    low=0,
    high=0,
    usual=Settings(threshold=0, minutes=30),
    measure=partial(measure, levels=all_idle),
    describe=describe,
    weigh=weigh,
    is_on=True,
    being="idle",
    covers="the time of its idle GPUs",
    state="idle",
)
