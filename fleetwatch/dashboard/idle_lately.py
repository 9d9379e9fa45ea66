"""What was idle in the last 24 hours and is not now, and what is quiet and not idle yet."""

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from fleetwatch.costs.mapping.attribution import into_teams
from fleetwatch.dashboard.idle_jobs import OpenIncident, open_incidents
from fleetwatch.dashboard.parameters import scope_of
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.fleet_now import CURRENT_RUN_MS
from fleetwatch.figures.others_names import jobs_shown
from fleetwatch.figures.selectors import Group
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.selectors import RunSpan, runs
from fleetwatch.lib.intervals import Interval, to_ms

LOOKS_BACK = timedelta(hours=24)
LEAST_QUIET_MS = 300_000  # of a job that works it is quiet for shorter every other minute
MAX_SHOWN = 10


@dataclass(frozen=True, slots=True)
class IdleLately:
    """A GPU that was idle for `idle_ms` of the last 24 h, and its last idle run with whose it is;
    None where that is not known.
    """

    gpu: GPU
    last: RunSpan | None
    job: Job | None
    idle_ms: int
    cost_usd: Decimal


@dataclass(frozen=True, slots=True)
class Lately:
    """The dearest of them, how many more there are, and what these and all cost."""

    lines: Sequence[IdleLately]
    more: int
    more_usd: Decimal
    cost_usd: Decimal


@dataclass(frozen=True, slots=True)
class QuietNow:
    """A GPU that does nothing for a job, for less long than makes it idle; `incident_id` of one
    that is open since its job idled before, None where none is.
    """

    gpu: GPU
    job: Job
    since_ms: int
    incident_id: int | None


def is_within(filters: Mapping[str, str], gpu: GPU, jobs: Iterable[Job]) -> bool:
    """Whether the GPU, under these jobs, is what the filters (PLACES) ask for; their teams are
    those whose the time is.
    """
    return all(value in _facts(name, gpu, jobs) for name, value in filters.items())


def _facts(name: str, gpu: GPU, jobs: Iterable[Job]) -> list[str]:
    if name == "team":
        return [job.team.slug for job in jobs if job.team]
    if name == "cluster":
        return [job.cluster for job in jobs]
    return [gpu.node.name] if name == "node" else [gpu.model.name] if gpu.model else []


def idle_lately(now: datetime, *, but: Collection[int], filters: Mapping[str, str]) -> Lately:
    """The GPUs but these, of time that the filters ask for, the dearest first."""
    day = Interval(now - LOOKS_BACK, now)
    every = _dearest(day, {*but}, filters)
    dearest = every[:MAX_SHOWN]
    last = _last_idle([gpu.pk for gpu, _ in dearest], day)
    jobs = _jobs(last.values())
    left_off = every[MAX_SHOWN:]
    return Lately(
        [_line(gpu, group, last.get(gpu.pk), jobs) for gpu, group in dearest],
        len(left_off),
        _sum(left_off),
        _sum(every),
    )


def _sum(several: Iterable[tuple[GPU, Group]]) -> Decimal:
    return sum((group.totals.cost_usd for _, group in several), Decimal(0))


def _dearest(day: Interval, but: Set[int], filters: Mapping[str, str]) -> list[tuple[GPU, Group]]:
    """Every GPU with such idle time in the day but these and their instances."""
    scope = replace(scope_of(filters), states=("idle",))
    groups = costs.look(day, "gpu", scope=scope).by("gpu")
    of_gpu = {gpu.uuid: gpu for gpu in _gpus({group.key for group in groups})}
    every = [(of_gpu[group.key], group) for group in groups if group.key in of_gpu]
    ended = [(gpu, group) for gpu, group in every if not {gpu.pk, gpu.parent_id} & but]
    return sorted(ended, key=lambda each: -each[1].totals.cost_usd)


def quiet_now(now: datetime, filters: Mapping[str, str]) -> list[QuietNow]:
    """GPUs whose newest run is quiet under a job, and not idle; those first that are so longest."""
    quiet = [run for run in _newest(to_ms(now)) if _is_quiet(run)]
    longest = sorted(quiet, key=lambda run: (run.start_ms, run.gpu_id))
    held = _held(longest if filters else longest[:MAX_SHOWN])
    if filters:
        into_teams([job for _, _, job in held], before=now)
        held = [each for each in held if is_within(filters, each[1], [each[2]])][:MAX_SHOWN]
    incidents = open_incidents([job for _, _, job in held], now)
    return [_quiet(*each, incidents) for each in held]


def _held(longest: Sequence[RunSpan]) -> list[tuple[RunSpan, GPU, Job]]:
    """Each run with its GPU and its job."""
    jobs = _jobs(longest)
    gpus = GPU.objects.select_related("node", "model").in_bulk([run.gpu_id for run in longest])
    return [(run, gpus[run.gpu_id], jobs[run.job_id or 0]) for run in longest]


def _newest(now_ms: int) -> Iterable[RunSpan]:
    """Of each GPU that is not retired its newest run."""
    ids = GPU.objects.filter(retired_ms=None).values_list("pk", flat=True)
    newest: dict[int, RunSpan] = {}
    for run in runs(ids, start_ms=now_ms - CURRENT_RUN_MS, end_ms=now_ms):
        newest[run.gpu_id] = max(run, newest.get(run.gpu_id, run), key=lambda each: each.end_ms)
    return newest.values()


def _quiet(run: RunSpan, gpu: GPU, job: Job, incidents: Mapping[str, OpenIncident]) -> QuietNow:
    incident = incidents.get(job.key)
    return QuietNow(gpu, job, run.start_ms, incident.pk if incident else None)


def _is_quiet(run: RunSpan) -> bool:
    is_held = run.condition == "quiet" and run.job_id is not None
    return is_held and not run.state_ms.get("idle") and run.duration_ms >= LEAST_QUIET_MS


def _gpus(uuids: Collection[str]) -> Iterable[GPU]:
    return GPU.objects.select_related("node").filter(uuid__in=uuids)


def _last_idle(gpu_ids: Collection[int], day: Interval) -> dict[int, RunSpan]:
    """By GPU its newest idle run."""
    last: dict[int, RunSpan] = {}
    for run in runs(gpu_ids, start_ms=day.start_ms, end_ms=day.end_ms, conditions=("quiet",)):
        if run.state_ms.get("idle"):
            last[run.gpu_id] = max(run, last.get(run.gpu_id, run), key=lambda each: each.end_ms)
    return last


def _jobs(held: Iterable[RunSpan]) -> dict[int, Job]:
    """Whose the runs are, by id, as the reader is shown them."""
    ids = {run.job_id for run in held if run.job_id}
    return {job.pk: job for job in jobs_shown(list(Job.objects.filter(pk__in=ids)))}


def _line(gpu: GPU, group: Group, last: RunSpan | None, jobs: dict[int, Job]) -> IdleLately:
    job = jobs.get(last.job_id or 0) if last else None
    return IdleLately(gpu, last, job, group.totals.capacity_ms, group.totals.cost_usd)
