"""Reads of findings that are a node's or a cluster's: what took GPU time there, whom it hurt, and
hour by hour.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import Max, Min, Q, QuerySet, Sum

from fleetwatch.accounts.selectors import zone
from fleetwatch.diagnosis import cause_columns
from fleetwatch.diagnosis.cause_totals import (
    HELD,
    HIGH,
    LOW,
    Caused,
    nothing,
)
from fleetwatch.diagnosis.causes import BLIND, FAILURES, OF_CAPACITY, OF_STATES, SLOWED
from fleetwatch.diagnosis.findings.back_again import back_since
from fleetwatch.diagnosis.findings.deciders import with_assignees
from fleetwatch.diagnosis.findings.machine_time import MachineTime
from fleetwatch.diagnosis.findings.ranked_findings import Line, status
from fleetwatch.diagnosis.findings.slowed_ends import slowed_end
from fleetwatch.diagnosis.findings.state_ends import state_ends
from fleetwatch.diagnosis.judgement import rules
from fleetwatch.diagnosis.models import CapacityEntry, CauseEntry, Finding
from fleetwatch.diagnosis.slowed_cells import begun_ms
from fleetwatch.figures import boundaries, engine
from fleetwatch.figures.packed_spans import numbered
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs import selectors as jobs
from fleetwatch.jobs.models import GPUProcess, Job
from fleetwatch.ledger.models import Entry, Posted, Run
from fleetwatch.ledger.posted_gpus import outages_of
from fleetwatch.lib.intervals import (
    HOUR_MS,
    Interval,
    floor_hour,
    floor_hour_ms,
    from_ms,
    to_ms,
)
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import one_view, read_statement
from fleetwatch.telemetry import retention

_PROGRESS = read_statement("diagnosis/sql/progress.sql")
_AFFECTED = slice(HELD, HELD + 1)  # of which hours without a rate are told, wasted or not
MAX_JOBS = 20
LONGEST = timedelta(days=30)
HOUR = timedelta(hours=1)
CURRENT_MS = 10 * 60_000  # runs that end so shortly before a node's newest window say how it stands
NEARLY_ALL = 0.95  # of the period's hours: the rest follows within minutes, and changes few sums
# A fault ends its job: the holder is looked for in the hour in which it began, and ten minutes
# before.
_HOLDERS = (
    "SELECT DISTINCT allocation.job_id, fault.at_ms FROM jobs_hold AS allocation"
    " JOIN unnest(%s::bigint[], %s::bigint[]) AS fault (gpu_id, at_ms) USING (gpu_id)"
    " WHERE allocation.held && int8range(fault.at_ms - 600000, fault.at_ms + 3600000)"
    " ORDER BY fault.at_ms DESC, allocation.job_id LIMIT %s"
)


@dataclass(frozen=True, slots=True)
class Affected:
    """A GPU with what the finding took of it, and since when."""

    gpu: GPU
    caused: Caused
    first: datetime

    @property
    def gpu_ms(self) -> int:
        return self.caused.held_ms

    @property
    def lost_usd(self) -> Decimal:
        """What of its time was wasted."""
        return self.caused.wasted_usd


@dataclass(frozen=True, slots=True)
class Hurt:
    """A job that held one of the GPUs meanwhile; `held_ms` is the time that it was hit there,
    slowed or with memory errors, 0 where that is not known. `lost_usd` is what of it the machine
    wasted; None where that is a line of the ledger of its own. `at_ms`: of GPUs that failed the
    hours in which it was hit; `until_ms`: when it ended, where that was in the hour in which one
    failed, and `errors_from_ms` when it first had new memory errors before that.
    """

    job: Job
    held_ms: int
    lost_usd: Decimal | None
    at_ms: tuple[int, ...] = ()
    until_ms: int | None = None
    errors_from_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Hour:
    """GPU-milliseconds of one clock hour: all that is affected, and of it what could have been
    used, at least and at most.
    """

    start: datetime
    gpu_ms: int
    low_ms: int
    high_ms: int


@dataclass(frozen=True, slots=True)
class Progress:
    """Hours of nodes in a period: posted to the ledger, and of these the ones whose causes are
    worked out.
    """

    posted: int
    diagnosed: int

    @property
    def is_behind(self) -> bool:
        """By more than what late data and the hour just over leave for the next minute."""
        return self.share < NEARLY_ALL

    @property
    def share(self) -> float:
        return self.diagnosed / self.posted if self.posted else 1.0


def findings(
    interval: Interval, *, now: datetime, cause: str | None = None, node: str | None = None
) -> list[Line]:
    """Every finding of a node or cluster with time in the period: what has most at stake first,
    then the most time.
    """
    named = {"cause": cause, "node__name": node}
    rows = Finding.objects.filter(
        job=None,
        last_ms__gt=interval.start_ms - HOUR_MS,
        first_ms__lt=interval.end_ms + HOUR_MS,
        **{name: value for name, value in named.items() if value is not None},
    )
    wanted = list(rows.select_related("node", "assignee"))
    with_assignees(wanted)
    lines = _lines(interval, wanted, now=now)
    return sorted(lines, key=lambda line: (-_at_stake(line), line.caused.order, line.finding.pk))


def is_range(finding: Finding) -> bool:
    """Whether what is at stake is a range, of what could have been used; else it is all that is
    affected.
    """
    return finding.cause not in OF_CAPACITY or bool(finding.cluster)


def _at_stake(line: Line) -> Decimal:
    """In dollars, as it is shown; of a range the middle."""
    saving = line.caused.saving
    middle = (saving.low_usd + saving.high_usd) / 2
    return middle if is_range(line.finding) else line.caused.held_usd


def line_of(finding: Finding, interval: Interval, *, now: datetime) -> Line:
    """One finding in the period, with zeros where it has no time in it."""
    lines = _lines(interval, [finding], now=now)
    return lines[0] if lines else Line(finding, nothing(0, finding.cause), status(finding, now))


def _lines(interval: Interval, rows: Sequence[Finding], *, now: datetime) -> list[Line]:
    if not rows:
        return []
    lines = cause_columns.lines(engine.read(MachineTime(rows), interval), by_job=False)
    by_id = {str(finding.pk): finding for finding in rows}
    return [
        _line(by_id[caused.cause], caused, gpus, now)
        for caused, gpus in zip(lines.caused(counted=_AFFECTED), lines.gpus().tolist(), strict=True)
    ]


def _line(finding: Finding, caused: Caused, gpus: int, now: datetime) -> Line:
    # what a counter or an event says is sure; whether a job that waits would have fitted is not
    is_sure = finding.cause != SLOWED and caused.ms[LOW] == caused.ms[HIGH]
    confidence = rules.HIGH if is_sure else caused.confidence
    named = replace(caused, cause=finding.cause, confidence=confidence)
    return Line(finding, named, status(finding, now), gpus)


def affected(finding: Finding, interval: Interval) -> list[Affected]:
    """The GPUs of the finding in the period: what lost most first, then most time, then by node
    and number.
    """
    with one_view():  # no GPU has time in one of the two alone
        spans = engine.read(MachineTime([finding]), interval)
        firsts = _begun(finding, _firsts(finding, _so_far(finding, interval)))
    gpu_ids, gpu = numbered(spans.gpu)
    # a line for each GPU, where elsewhere each job has one
    by_gpu = cause_columns.Lines(spans, gpu_ids, np.zeros_like(gpu_ids), gpu)
    gpus = GPU.objects.select_related("node", "model").in_bulk(gpu_ids.tolist())
    lines = [
        Affected(gpus[gpu_id], caused, max(firsts[gpu_id], from_ms(finding.first_ms)))
        for gpu_id, caused in zip(gpu_ids.tolist(), by_gpu.caused(), strict=True)
    ]
    lines.sort(key=_order)
    return [line for line in lines if line.gpu_ms > 0]


def _order(line: Affected) -> tuple[object, ...]:
    gpu = line.gpu
    is_numbered = gpu.index is not None
    return -line.lost_usd, -line.gpu_ms, gpu.node.name, not is_numbered, gpu.index or 0, gpu.pk


def _so_far(finding: Finding, interval: Interval) -> Interval:
    """From when the finding began, however short the period is, to the period's end."""
    return Interval(min(from_ms(finding.first_ms), interval.start), interval.end)


def over_since_ms(finding: Finding) -> int | None:
    """When what the finding of a node is about was over; None while it goes on, or where that is
    not known, as of a node that was not heard since.
    """
    return _over_ms(finding, finding.last_ms, Q(gpu__isnull=False))


def over_on_gpu_ms(finding: Finding, gpu: GPU) -> int | None:
    """When what the node's finding is about was over on this GPU, though it may go on on others of
    the node; None as over_since_ms() has it.
    """
    entries = kept_entries(finding).filter(
        gpu=gpu, start__gte=floor_hour(from_ms(finding.first_ms))
    )
    last_start = entries.aggregate(last=Max("start"))["last"]
    if last_start is None:
        return over_since_ms(finding)
    # a cut at the organisation's midnight may begin within an hour
    last_ms = min(finding.last_ms, floor_hour_ms(to_ms(last_start)) + HOUR_MS)
    if gpu.pk in freed(finding):
        return _left_state_ms(finding, gpu, to_ms(last_start)) or last_ms
    return _over_ms(finding, last_ms, Q(gpu=gpu))


def _left_state_ms(finding: Finding, gpu: GPU, since_ms: int) -> int | None:
    """Where the GPU's last run in the finding's state ended; None where none is kept."""
    runs = Run.objects.filter(
        Run.ended_after(since_ms), gpu=gpu, condition=OF_STATES[finding.cause]
    )
    last_ms: int | None = runs.aggregate(last=Max("end_ms"))["last"]
    return last_ms


def _over_ms(finding: Finding, last_ms: int, which: Q) -> int | None:
    """Of the GPUs `which`, that were in it at `last_ms` at last, since when they are not."""
    node = finding.node
    if node is None or node.last_ms is None:
        return None
    if finding.cause == SLOWED:
        slowed = slowed_end(finding, last_ms, which)
        return slowed.until_ms if slowed.is_over else None
    back_ms = back_since([(finding, last_ms)], which).get(finding.pk)
    if back_ms is not None:
        return back_ms
    if last_ms >= node.last_ms - HOUR_MS:
        return None
    return state_ends([(finding, last_ms)], which).get(finding.pk, last_ms)


def hours(finding: Finding, interval: Interval) -> list[Hour]:
    """Clock hours (cuts of the ledger) of the finding in the period, in order of time."""
    affected = "held_ms" if finding.cause == SLOWED else "gpu_ms"
    by_start = _entries(finding, interval).order_by("start").values_list("start")
    rows = by_start.annotate(Sum(affected), Sum("low_ms"), Sum("high_ms"))
    return [Hour(*row) for row in rows]


def _firsts(finding: Finding, interval: Interval) -> dict[int, datetime]:
    """Of each GPU's id since when it is affected in the period: from its first five minutes where
    jobs are slowed, else from the hour in which it was first.
    """
    entries = _entries(finding, interval)
    if finding.cause != SLOWED:
        return dict(entries.values_list("gpu_id").annotate(Min("start")))
    firsts: dict[int, datetime] = {}
    for gpu_id, start, cells in entries.values_list("gpu_id", "start", "cells"):
        first = from_ms(begun_ms(to_ms(start), cells))
        firsts[gpu_id] = min(first, firsts.get(gpu_id, first))
    return firsts


def _begun(finding: Finding, firsts: dict[int, datetime]) -> dict[int, datetime]:
    """Of GPUs that failed the moment in their first hour at which that was said, where it is
    known.
    """
    if finding.cause not in FAILURES:
        return firsts
    begun = dict(firsts)
    for row in Posted.objects.filter(gpu_id__in=firsts).exclude(outages=[]):
        first_ms = to_ms(firsts[row.gpu_id])
        starts_ms = [each.start_ms for each in outages_of(row.outages) if not each.is_drain]
        within = [moment for moment in starts_ms if first_ms <= moment < first_ms + HOUR_MS]
        if within:
            begun[row.gpu_id] = from_ms(min(within))
    return begun


def _entries(finding: Finding, interval: Interval) -> QuerySet[Any]:
    whole = boundaries.outward(interval, zone())
    return kept_entries(finding).filter(start__gte=whole.start, start__lt=whole.end)


def kept_entries(finding: Finding) -> QuerySet[Any]:
    """Its hours, by GPU: bound them by `start`."""
    rows: QuerySet[Any] = CauseEntry.objects.all()
    if finding.cause != SLOWED:
        rows = CapacityEntry.objects.filter(cluster=finding.cluster)
    of_node = {"node": finding.node_id} if finding.node_id else {}
    return rows.filter(cause=finding.cause, **of_node)


def hurt(finding: Finding, interval: Interval) -> list[Hurt]:
    """Jobs that held the GPUs while it went on: those that lost most first; of a queue none, and
    none where nobody knows whether they lost anything.
    """
    if not finding.node_id or finding.cause in BLIND:
        return []
    lost = _lost(finding, interval)
    ended = _ended_by(finding, interval, MAX_JOBS - len(lost))
    errors = _with_errors(finding, ended.keys())
    lost = {pk: (held_ms, None, ()) for pk, (held_ms, _) in errors.items()} | lost
    jobs = Job.objects.select_related("team").in_bulk([*lost, *ended])
    hurt = [_hurt(job, lost.get(pk), ended.get(pk, ()), errors.get(pk)) for pk, job in jobs.items()]
    return sorted(hurt, key=lambda line: (-line.held_ms, line.job.pk))


def unseen_jobs(finding: Finding, interval: Interval) -> list[tuple[Job | None, int]]:
    """Jobs that held the GPUs of a node while nobody saw these, each with that GPU time in
    milliseconds, as the ledger has it of the finding's hours: the longest first, and last (None)
    what no known job held. Empty of what is about anything else.
    """
    if finding.cause not in BLIND:
        return []
    unseen = Entry.objects.filter(
        node=finding.node_id,
        state="unobserved",
        start__in=_entries(finding, interval).values("start"),
    )
    unseen_ms = dict(unseen.values_list("job").annotate(Sum("gpu_ms")))
    rest_ms = unseen_ms.pop(None, 0)
    longest = sorted(unseen_ms, key=lambda pk: (-unseen_ms[pk], pk))[:MAX_JOBS]
    jobs = Job.objects.select_related("team").in_bulk(longest)
    shares: list[tuple[Job | None, int]] = [(jobs[pk], unseen_ms[pk]) for pk in longest]
    return [*shares, (None, rest_ms)] if rest_ms else shares


def _with_errors(finding: Finding, job_ids: Collection[int]) -> dict[int, tuple[int, int]]:
    """Of jobs that a fault ended the time before it in which they had new memory errors there,
    which the finding's own begins after, and when the first of it began.
    """
    if not job_ids:
        return {}
    causes = CauseEntry.objects.filter(
        job__in=job_ids, node=finding.node_id, cause=finding.cause, held_ms__gt=0
    )
    by_job: dict[int, tuple[int, int]] = {}
    for job_id, start, cells, held_ms in causes.values_list("job_id", "start", "cells", "held_ms"):
        begun = begun_ms(to_ms(start), cells)
        sum_ms, first_ms = by_job.get(job_id, (0, begun))
        by_job[job_id] = sum_ms + held_ms, min(first_ms, begun)
    return by_job


def _hurt(
    job: Job,
    lost: tuple[int, Decimal | None, tuple[int, ...]] | None,
    ended: tuple[int, ...],
    errors: tuple[int, int] | None,
) -> Hurt:
    """The job with what it lost, None where that is not known, and the hours it was hit in."""
    held_ms, lost_usd, at_ms = lost or (0, None, ())
    end_ms = job.end_ms
    is_over = end_ms is not None and any(hour <= end_ms < hour + HOUR_MS for hour in ended)
    until_ms = end_ms if is_over else None
    return Hurt(job, held_ms, lost_usd, (*at_ms, *ended), until_ms, errors[1] if errors else None)


def _lost(
    finding: Finding, interval: Interval
) -> dict[int, tuple[int, Decimal | None, tuple[int, ...]]]:
    """By the job's id its time there, the dollars that it lost (None: not its waste), and in which
    hours where GPUs failed, of those that lost most.
    """
    if finding.cause == SLOWED:
        caused = sorted(lost_by_job(finding, interval).items(), key=lambda each: -each[1].held_ms)
        return {job_id: (each.held_ms, each.wasted_usd, ()) for job_id, each in caused[:MAX_JOBS]}
    causes = CauseEntry.objects.filter(
        node=finding.node_id, cause=finding.cause, start__gte=interval.start, start__lt=interval.end
    )
    by_job = causes.values_list("job_id").annotate(lost=Sum("held_ms"), hours=ArrayAgg("start"))
    return {
        job_id: (held_ms, None, tuple(map(to_ms, hours)))
        for job_id, held_ms, hours in by_job.order_by("-lost")[:MAX_JOBS]
    }


def lost_by_job(finding: Finding, interval: Interval) -> dict[int, Caused]:
    """By the job's id what a node's finding took of each job that it slowed: they sum to what it
    took of all. Empty where its time is a line of the ledger of its own.
    """
    if finding.cause != SLOWED:
        return {}
    lines = cause_columns.lines(engine.read(MachineTime([finding]), interval), by_job=True)
    return {each.job_id: each for each in lines.caused(counted=_AFFECTED) if each.job_id}


def slowing(job: Job, interval: Interval) -> list[Finding]:
    """The findings of nodes that slowed the job in the period, by the nodes' names."""
    nodes = CauseEntry.objects.filter(
        job=job, cause=SLOWED, start__gte=floor_hour(interval.start), start__lt=interval.end
    ).values("node")
    findings = Finding.objects.filter(node__in=nodes, cause=SLOWED, job=None)
    return list(findings.select_related("node").order_by("node__name"))


def beginnings(hours: Iterable[datetime]) -> list[datetime]:
    """Of hours (cuts of the ledger) in order those that do not follow on the one before."""
    begun: list[datetime] = []
    before: datetime | None = None
    for start in hours:
        if before is None or start - before > HOUR:
            begun.append(start)
        before = start
    return begun


def _ended_by(finding: Finding, interval: Interval, limit: int) -> dict[int, tuple[int, ...]]:
    """Jobs that held a GPU when it failed, the last ones: the fault ended them before the hour was
    over. By the job's id the hours in which that was.
    """
    if finding.cause not in FAILURES or limit <= 0:
        return {}
    begun = _all_begun(finding, interval)
    rows = fetched(_HOLDERS, [[pk for pk, _ in begun], [at_ms for _, at_ms in begun], limit])
    ended: dict[int, tuple[int, ...]] = defaultdict(tuple)
    for job_id, at_ms in rows:
        ended[job_id] += (at_ms,)
    return ended


def _all_begun(finding: Finding, interval: Interval) -> list[tuple[int, int]]:
    """The ids of its GPUs, each with the hours in which it began on it."""
    by_gpu: dict[int, list[datetime]] = defaultdict(list)
    for gpu_id, start in _entries(finding, interval).order_by("start").values_list("gpu", "start"):
        by_gpu[gpu_id].append(start)
    return [(pk, to_ms(start)) for pk, hours in by_gpu.items() for start in beginnings(hours)]


def processes(finding: Finding, interval: Interval) -> list[GPUProcess]:
    """Of orphaned GPUs the processes of no job that were seen on them last, most memory first."""
    if finding.cause not in OF_STATES or finding.node_id is None:
        return []
    gpu_ids = {line.gpu.pk for line in affected(finding, interval)}
    here = [
        process
        for process in jobs.processes(finding.node_id)
        if process.job_id is None and process.gpu_id in gpu_ids
    ]
    return sorted(here, key=lambda process: (-(process.memory_bytes or 0), process.pid))


def pools(finding: Finding, interval: Interval) -> list[tuple[str, int, int]]:
    """(pool, GPU time that was free, most of it that could have been used) of a queue's free time,
    in milliseconds, most first; "" = nodes that name none.
    """
    by_pool = _entries(finding, interval).values_list("node__labels__pool")
    rows = by_pool.annotate(Sum("gpu_ms"), Sum("high_ms"))
    pools = [(str(pool or ""), free_ms, high_ms) for pool, free_ms, high_ms in rows]
    return sorted(pools, key=lambda row: (-row[2], row[0]))


def whole(finding: Finding) -> Interval:
    """From its first hour to its last, at most LONGEST: whole hours, so that no part of one is
    counted by its share.
    """
    last = from_ms(finding.last_ms)
    return Interval(max(floor_hour(from_ms(finding.first_ms)), last - LONGEST), last)


def freed(finding: Finding) -> set[int]:
    """Of an orphaned finding's node the GPUs that were last seen otherwise than orphaned: a reset
    would end a job's work.
    """
    state = OF_STATES.get(finding.cause)
    if state is None or finding.node is None or finding.node.last_ms is None:
        return set()
    runs = Run.objects.filter(
        node=finding.node_id, end_ms__gt=finding.node.last_ms - CURRENT_MS
    ).exclude(condition="unobserved")
    newest: dict[int, str] = dict(runs.order_by("end_ms").values_list("gpu_id", "condition"))
    return {gpu_id for gpu_id, condition in newest.items() if condition != state}


def progress(interval: Interval, *, now: datetime) -> Progress:
    """How far diagnosis is with the period's hours that are over."""
    end_ms = min(interval.end_ms, to_ms(now) - 5 * 60_000)
    hours = {"first_hour": interval.start_ms // HOUR_MS, "end_hour": end_ms // HOUR_MS}
    rows = fetched(_PROGRESS, hours | {"since": retention.horizon(now).date()})
    return Progress(*rows[0])
