"""Reads of findings that are a node's or a cluster's: what took GPU time there, whom it hurt, and
hour by hour.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db import connection
from django.db.models import Count, Min, QuerySet, Sum

from fleetwatch.accounts.selectors import zone
from fleetwatch.diagnosis.cause import Facts
from fleetwatch.diagnosis.cause_totals import ZERO, Caused, Saving, nothing, together, total
from fleetwatch.diagnosis.causes import FAILURES, OF_CAPACITY, OF_STATES, SLOWED
from fleetwatch.diagnosis.findings import clipped_places
from fleetwatch.diagnosis.findings.ranked_findings import Findings, Line, status, user_id
from fleetwatch.diagnosis.models import CapacityEntry, CauseEntry, Finding
from fleetwatch.diagnosis.shell import NOWHERE, Place
from fleetwatch.figures import boundaries
from fleetwatch.figures.edges import split
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs import selectors as jobs
from fleetwatch.jobs.models import Allocation, GPUProcess, Job
from fleetwatch.ledger.models import Run
from fleetwatch.lib.intervals import HOUR_MS, Interval, from_ms, to_ms
from fleetwatch.lib.sql import read_statement
from fleetwatch.telemetry import retention

_PLACED = read_statement("diagnosis/sql/placed.sql")
_PROGRESS = read_statement("diagnosis/sql/progress.sql")
RECOVERABLE = ("open", "snoozed")  # how findings stand whose savings are told as recoverable
MAX_JOBS = 20
MAX_PIDS = 8
LONGEST = timedelta(days=30)
CURRENT_MS = 10 * 60_000  # runs that end so shortly before a node's newest window say how it stands
NEARLY_ALL = 0.95  # of the period's hours: the rest follows within minutes, and changes few sums
# A fault ends its job: the holder is looked for in the hour in which it began, and ten minutes
# before.
_HOLDERS = (
    "SELECT DISTINCT allocation.job_id FROM jobs_allocation AS allocation"
    " JOIN unnest(%s::bigint[], %s::bigint[]) AS fault (gpu_id, at_ms) USING (gpu_id)"
    " WHERE allocation.held && int8range(fault.at_ms - 600000, fault.at_ms + 3600000) LIMIT %s"
)


@dataclass(frozen=True, slots=True)
class Affected:
    """A GPU with the time that the finding took of it, and since when."""

    gpu: GPU
    gpu_ms: int
    first: datetime


@dataclass(frozen=True, slots=True)
class Hurt:
    """A job that held one of the GPUs meanwhile; `held_ms` is the time that it lost there, 0 where
    that is not known.
    """

    job: Job
    held_ms: int


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
    """Every finding of a node or cluster with time in the period: the largest possible saving
    first, then the most time.
    """
    known = Finding.objects.filter(
        job=None, last_ms__gt=interval.start_ms - HOUR_MS, first_ms__lt=interval.end_ms + HOUR_MS
    )
    if cause is not None:
        known = known.filter(cause=cause)
    if node is not None:
        known = known.filter(node__name=node)
    by_id = {found.pk: found for found in known.select_related("node", "assignee")}
    if not by_id:
        return []
    lines = [
        Line(by_id[pk], one, status(by_id[pk], now), gpus)
        for pk, gpus, one in _placed(interval, by_id)
    ]
    return sorted(
        lines,
        key=lambda line: (
            -line.caused.worth,
            -line.caused.high_ms,
            -line.caused.held_ms,
            line.finding.pk,
        ),
    )


def assigned(lines: Iterable[Line], name: str) -> list[Line]:
    """Those given to the user of that name; "" = to nobody."""
    owner = user_id(name)
    return [
        line
        for line in lines
        if line.finding.assignee_id == owner and (owner is not None or not name)
    ]


def narrowed(
    of_jobs: Findings,
    of_places: Iterable[Line],
    *,
    kind: str | None = None,
    cluster: str | None = None,
    state: str | None = None,
) -> tuple[Findings, list[Line]]:
    """Those of jobs of that kind and cluster, and of places of that cluster, that wasted time in
    that state; None = any.

    A kind is of jobs alone, and a node is of no cluster.
    """
    facts = {
        name: value for name, value in (("kind", kind), ("cluster", cluster)) if value is not None
    }
    if facts:
        of_jobs = of_jobs.of_jobs(**facts)
    if state is not None:
        of_jobs = of_jobs.wasted_in(state)
    lines = [line for line in of_places if kind is None and cluster in (None, line.finding.cluster)]
    return of_jobs, [line for line in lines if state is None or _is_wasted_in(line, state)]


def _is_wasted_in(line: Line, state: str) -> bool:
    """Orphaned time is a state of its own, though its dollars stand where those of idle do."""
    own = OF_STATES.get(line.finding.cause)
    return state == own if own else line.caused.wasted_in(state)


def saving(of_jobs: Findings, of_places: Iterable[Line], *statuses: str) -> Saving:
    """What findings that stand so could save: of places those whose time is a part of what was
    wasted, as jobs' is.
    """
    wasted = [
        line.caused
        for line in of_places
        if line.finding.cause not in OF_CAPACITY and line.status in statuses
    ]
    return together([of_jobs.of_status(*statuses).saving(), total(wasted)])


def wasted_usd(of_jobs: Findings, of_places: Iterable[Line], *statuses: str) -> Decimal:
    """Dollars that the same findings explain, whatever their tier."""
    wasted = [
        line.caused.wasted_usd
        for line in of_places
        if line.finding.cause not in OF_CAPACITY and line.status in statuses
    ]
    return of_jobs.of_status(*statuses).lines.wasted_usd() + sum(wasted, ZERO)


def line_of(finding: Finding, interval: Interval, *, now: datetime) -> Line:
    """One finding in the period, with zeros where it has no time in it."""
    for _, gpus, one in _placed(interval, {finding.pk: finding}, only=finding.pk):
        return Line(finding, one, status(finding, now), gpus)
    return Line(finding, nothing(0, finding.cause), status(finding, now))


def _placed(
    interval: Interval, by_id: dict[int, Finding], *, only: int | None = None
) -> list[tuple[int, int, Caused]]:
    whole = boundaries.outward(interval, zone())
    wanted: dict[str, Any] = {
        "start": whole.start,
        "end": whole.end,
        "slowed": SLOWED,
        "whole": list(OF_STATES),
        "finding": only,
    }
    wanted |= clipped_places.parts(interval, zone(), {found.cause for found in by_id.values()})
    with connection.cursor() as cursor:
        cursor.execute(_PLACED, wanted)
        return [
            (pk, gpus, _caused(by_id[pk].cause, *row))
            for pk, gpus, *row in cursor.fetchall()
            if pk in by_id
        ]


def _caused(cause: str, confidence: int, held_ms: int, *row: Any) -> Caused:
    ms, (low_ms, high_ms) = row[:5], row[5:7]
    held, *usd, low, high = (ZERO if part is None else part for part in row[7:15])
    # what a counter or an event says is sure; whether a job that waits would have fitted is not
    sure = 3 if cause != SLOWED and low_ms == high_ms else confidence
    return Caused(None, cause, sure, held_ms, ms, low_ms, high_ms, held, usd, low, high, *row[15:])


def affected(finding: Finding, interval: Interval) -> list[Affected]:
    """The GPUs of the finding in the period, those with most time first."""
    ms = "held_ms" if finding.cause == SLOWED else "gpu_ms"
    entries = _entries(finding, interval)
    found = entries.values_list("gpu_id").annotate(Sum(ms), Min("start"))
    _, edges = split(interval, zone())
    at_edges = entries.filter(start__in=[edge.cut.start for edge in edges])
    outside = clipped_places.outside(
        interval, zone(), finding.cause, at_edges.values_list("gpu_id", "start", ms)
    )
    gpus = GPU.objects.select_related("node", "model").in_bulk([gpu_id for gpu_id, _, _ in found])
    lines = [
        Affected(gpus[gpu_id], gpu_ms - outside[gpu_id], first) for gpu_id, gpu_ms, first in found
    ]
    affected_gpus = [line for line in lines if line.gpu_ms > 0]
    return sorted(affected_gpus, key=lambda line: (-line.gpu_ms, line.gpu.pk))


def hours(finding: Finding, interval: Interval) -> list[Hour]:
    """Clock hours (cuts of the ledger) of the finding in the period, in order of time."""
    ms = "held_ms" if finding.cause == SLOWED else "gpu_ms"
    found = (
        _entries(finding, interval)
        .values_list("start")
        .annotate(Sum(ms), Sum("low_ms"), Sum("high_ms"))
        .order_by("start")
    )
    return [Hour(*row) for row in found]


def _entries(finding: Finding, interval: Interval) -> QuerySet[Any]:
    whole = boundaries.outward(interval, zone())
    rows: QuerySet[Any] = CauseEntry.objects.all()
    if finding.cause != SLOWED:
        rows = CapacityEntry.objects.filter(cluster=finding.cluster)
    of_node = {"node": finding.node_id} if finding.node_id else {}
    return rows.filter(cause=finding.cause, start__gte=whole.start, start__lt=whole.end, **of_node)


def hurt(finding: Finding, interval: Interval) -> list[Hurt]:
    """Jobs that held the GPUs while it went on: those that lost most first; of a queue none."""
    if finding.node_id is None:
        return []
    causes = CauseEntry.objects.filter(
        node=finding.node_id, cause=finding.cause, start__gte=interval.start, start__lt=interval.end
    )
    lost: dict[int, int] = dict(
        causes.values_list("job_id").annotate(lost=Sum("held_ms")).order_by("-lost")[:MAX_JOBS]
    )
    found = Job.objects.select_related("team").in_bulk(
        [*lost, *_ended_by(finding, interval, MAX_JOBS - len(lost))]
    )
    return sorted(
        (Hurt(job, lost.get(pk, 0)) for pk, job in found.items()),
        key=lambda one: (-one.held_ms, one.job.pk),
    )


def _ended_by(finding: Finding, interval: Interval, limit: int) -> Iterable[int]:
    """Jobs that held a GPU when it failed: the fault ended them before the hour was over."""
    if finding.cause not in FAILURES or limit <= 0:
        return []
    firsts = _entries(finding, interval).values_list("gpu_id").annotate(Min("start"))
    with connection.cursor() as cursor:
        cursor.execute(
            _HOLDERS,
            [[gpu_id for gpu_id, _ in firsts], [to_ms(first) for _, first in firsts], limit],
        )
        return [job_id for (job_id,) in cursor.fetchall()]


def processes(finding: Finding, interval: Interval) -> list[GPUProcess]:
    """Of orphaned GPUs the processes of no job that were seen on them last, most memory first."""
    if finding.cause not in OF_STATES or finding.node_id is None:
        return []
    gpu_ids = {one.gpu.pk for one in affected(finding, interval)}
    here = [
        one
        for one in jobs.processes(finding.node_id)
        if one.job_id is None and one.gpu_id in gpu_ids
    ]
    return sorted(here, key=lambda one: (-(one.memory_bytes or 0), one.pid))


def pools(finding: Finding, interval: Interval) -> list[tuple[str, int, int]]:
    """(pool, GPUs, most that could have been used) of a queue's free time, most first; "" = nodes
    that name none.
    """
    found = (
        _entries(finding, interval)
        .values_list("node__labels__pool")
        .annotate(Count("gpu", distinct=True), Sum("high_ms"))
    )
    return sorted(
        ((str(pool or ""), gpus, high_ms) for pool, gpus, high_ms in found),
        key=lambda row: (-row[2], row[0]),
    )


def whole(finding: Finding) -> Interval:
    """From its first hour to its last, at most LONGEST."""
    return Interval(
        max(from_ms(finding.first_ms), from_ms(finding.last_ms) - LONGEST), from_ms(finding.last_ms)
    )


def place(finding: Finding) -> Place:
    """The node, and the scheduler whose job held one of its GPUs last: what the command to take it
    out of service needs.
    """
    if finding.node is None:
        return NOWHERE
    held = Allocation.objects.filter(gpu__node=finding.node).exclude(job__start_ms=None)
    return Place(
        scheduler=held.order_by("-job__start_ms").values_list("job__scheduler", flat=True).first()
        or "",
        node=finding.node.name,
    )


def facts(finding: Finding, interval: Interval) -> Facts:
    """What its advice needs: the node, and the places of its GPUs there."""
    gpus = [one.gpu for one in affected(finding, interval)] if finding.node_id else []
    freed = _freed(finding)
    indexes = {gpu.index for gpu in gpus if gpu.pk not in freed}
    pids = tuple(sorted({one.pid for one in processes(finding, interval)}))
    where = replace(
        place(finding),
        pids=pids[:MAX_PIDS],
        is_over=bool(gpus) and freed.issuperset(gpu.pk for gpu in gpus),
    )
    return Facts(where, indexes=tuple(sorted(index for index in indexes if index is not None)))


def _freed(finding: Finding) -> set[int]:
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
    end = min(interval.end, from_ms(to_ms(now)) - timedelta(minutes=5))
    with connection.cursor() as cursor:
        cursor.execute(
            _PROGRESS, {"start": interval.start, "end": end, "since": retention.horizon(now).date()}
        )
        posted, diagnosed = cursor.fetchone()
    return Progress(posted, diagnosed)
