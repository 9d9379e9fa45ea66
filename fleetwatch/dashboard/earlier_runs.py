"""A job among the earlier ones of its name and owner, and what differs from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import Count, Q

from fleetwatch.dashboard.job_lines import JobLine, lasted, with_faults
from fleetwatch.dashboard.job_orders import Signals
from fleetwatch.dashboard.job_requests import time_limit_ms
from fleetwatch.dashboard.run_differences import Cell, Run, cells, like, names
from fleetwatch.diagnosis import selectors as diagnosis
from fleetwatch.diagnosis.selectors import Primary
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.selectors import Group, Scope
from fleetwatch.jobs.models import Allocation, Job
from fleetwatch.jobs.outcomes import RUNNING, with_outcomes
from fleetwatch.jobs.selectors import runs_like
from fleetwatch.lib.intervals import DAY_MS, Interval, from_ms, to_ms

MAX_RUNS = 8  # earlier ones
NEARLY_ALL = 0.95  # of a run: the rest is how its GPUs began and ended
REACH_MS = 60 * DAY_MS  # before the job's start and after it: of other time nothing is read


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run with its figures, as far as they lie within the time that was read."""

    line: JobLine
    cells: tuple[Cell, ...]
    is_this: bool


@dataclass(frozen=True, slots=True)
class Runs:
    """The job and, the newest first, those of its name and owner before it."""

    lines: Sequence[RunLine]
    like: str = ""  # how many of the earlier ones have its verdict, in words


def earlier_runs(job: Job, now: datetime) -> Runs:
    """Without lines where there is none before it."""
    earlier = runs_like(job, limit=MAX_RUNS)
    if not earlier or job.start_ms is None:
        return Runs(())
    runs = _runs([job, *earlier], _interval(job.start_ms, [job, *earlier], to_ms(now)), to_ms(now))
    if not runs.keys() - {job.pk}:
        return Runs(())
    than = runs[job.pk][1] if job.pk in runs else None
    lines = [
        RunLine(line, cells(run, than), is_this=pk == job.pk) for pk, (line, run) in runs.items()
    ]
    return Runs(lines, like([run for pk, (_, run) in runs.items() if pk != job.pk], than))


def _interval(start_ms: int, jobs: Sequence[Job], now_ms: int) -> Interval:
    """From the first of them to the end of the job itself, which is the first of the list."""
    first_ms = min(job.start_ms for job in jobs if job.start_ms is not None)
    last_ms = max(jobs[0].end_ms or now_ms, start_ms + DAY_MS)
    return Interval(
        from_ms(max(first_ms, start_ms - REACH_MS)), from_ms(min(last_ms, start_ms + REACH_MS))
    )


def _runs(jobs: Sequence[Job], interval: Interval, now_ms: int) -> dict[int, tuple[JobLine, Run]]:
    """By id, in their order, those of which there are figures; all are of one owner."""
    machines = _machines(jobs)
    return {
        job.pk: (line, _run(line, job, machines.get(job.pk, {}), interval, now_ms))
        for job, line in _lines(jobs, interval)
    }


def _lines(jobs: Sequence[Job], interval: Interval) -> list[tuple[Job, JobLine]]:
    """As job_lines has them, of jobs that were read already."""
    ids = [job.pk for job in jobs]
    held = costs.look(interval, "job", scope=Scope(jobs=tuple(ids)))
    groups = {group.key: group for group in held.by("job")}
    causes = diagnosis.causes_of(ids, interval)
    recorded = [job for job in with_outcomes(jobs) if job.key in groups]
    lines = [_line(groups[job.key], job, causes.get(job.pk), interval) for job in recorded]
    return list(zip(recorded, with_faults(lines), strict=True))


def _line(group: Group, job: Job, cause: Primary | None, interval: Interval) -> JobLine:
    return JobLine(group, job, cause, None, Signals(), *lasted(job, interval))


def _machines(jobs: Sequence[Job]) -> dict[int, dict[str, Any]]:
    """On how many GPUs each was, of which models, on which nodes; by its id."""
    models = ArrayAgg("gpu__model__name", distinct=True, filter=Q(gpu__model__isnull=False))
    nodes = ArrayAgg("gpu__node__name", distinct=True)
    gpus = Count("gpu", distinct=True)
    held = Allocation.objects.filter(job__in=jobs).values("job_id")
    return {
        row["job_id"]: dict(row) for row in held.annotate(gpus=gpus, models=models, nodes=nodes)
    }


def _run(
    line: JobLine, job: Job, machines: Mapping[str, Any], interval: Interval, now_ms: int
) -> Run:
    totals = line.group.totals
    gpus = machines.get("gpus", 0)
    lasted_ms = _lasted_ms(job, now_ms)
    return Run(
        gpus=gpus,
        models=", ".join(machines.get("models") or ()),
        nodes=names(machines.get("nodes") or ()),
        limit_ms=time_limit_ms(job.labels),
        lasted_ms=lasted_ms,
        is_whole=_is_whole(job, interval),
        wasted_share=totals.wasted_share_of_cost,
        cause=line.why,
        is_judged=line.is_judged,
        cost_usd=totals.cost_usd,
        recorded_ms=_recorded_ms(totals.capacity_ms, gpus, lasted_ms),
    )


def _recorded_ms(capacity_ms: int, gpus: int, lasted_ms: int | None) -> int | None:
    """Of what it lasted how much there are figures of, as a mean over its GPUs; None where that is
    nearly all, or not known.
    """
    if not gpus or lasted_ms is None or capacity_ms >= NEARLY_ALL * gpus * lasted_ms:
        return None
    return capacity_ms // gpus


def _lasted_ms(job: Job, now_ms: int) -> int | None:
    """None where it is over and nobody said when."""
    end_ms = now_ms if job.end_ms is None and job.state == RUNNING else job.end_ms
    return None if end_ms is None or job.start_ms is None else end_ms - job.start_ms


def _is_whole(job: Job, interval: Interval) -> bool:
    """Whether the job is over and all of it was read."""
    if job.start_ms is None or job.end_ms is None:
        return False
    return interval.start_ms <= job.start_ms and job.end_ms <= interval.end_ms
