"""The endpoints of /api/v1 that read: parse, select, shape. Nothing here writes."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Query, Router

from fleetwatch.api.answer_types import Answer, Joined, gpu_hours
from fleetwatch.api.money_figures import figures, rows_of_figures, rows_of_ranked
from fleetwatch.api.request_period import ALWAYS, RequestError, asked, required
from fleetwatch.api.schemas import (
    Filter,
    GPUDetail,
    GPUPage,
    JobDetail,
    JobPage,
    MappingPage,
    Name,
    NodePage,
    Paging,
    PeriodAsked,
    RatePage,
    Series,
    Summary,
    WastePage,
)
from fleetwatch.api.series import series_of
from fleetwatch.api.vocabulary import Grouping
from fleetwatch.costs.held import held_interval
from fleetwatch.costs.mapping import attribution
from fleetwatch.costs.models import GPURate
from fleetwatch.costs.rates import book
from fleetwatch.diagnosis import selectors as diagnosis
from fleetwatch.diagnosis.cause_totals import Saving
from fleetwatch.diagnosis.causes import UNDETERMINED
from fleetwatch.diagnosis.findings import evidence
from fleetwatch.diagnosis.judgement.rules import CONFIDENCES
from fleetwatch.diagnosis.queues import Queue, waiting
from fleetwatch.diagnosis.selectors import Primary
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.fleet_now import spending_now
from fleetwatch.figures.pricing import usd
from fleetwatch.figures.ranking import Ranked
from fleetwatch.figures.selectors import Breakdown
from fleetwatch.figures.totals import EVERYTHING, Group, Scope, nothing
from fleetwatch.inventory import selectors as inventory
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.inventory.selectors import hosts
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.outcomes import with_outcomes
from fleetwatch.jobs.selectors import (
    JobSource,
    PendingJobs,
    changes,
    contradictions,
    job_sources,
    namesakes,
    pending_jobs,
    wait_ms,
)
from fleetwatch.jobs.selectors import job as job_of_key
from fleetwatch.ledger.selectors import idle_power
from fleetwatch.lib.intervals import Interval, to_ms
from fleetwatch.telemetry import selectors as telemetry
from fleetwatch.telemetry.selectors import Drain

Where = Query[Filter]

Why = Mapping[int, tuple[Primary, Saving]]  # cause and savings of all its findings, by job's id

router = Router()


@router.get("/fleet/summary", operation_id="getFleetSummary", response=Summary, tags=["fleet"])
def fleet_summary(request: HttpRequest, period: PeriodAsked, where: Where) -> Joined:
    """GPU time by state, its dollars and its waste, of the whole fleet or what the filters ask for;
    and what the whole fleet costs at this moment.
    """
    wanted = asked(request)
    return Joined(
        figures(costs.totals(wanted.interval, scope=where.scope())),
        **wanted.answer(now=spending_now(timezone.now())),
    )


@router.get("/waste", operation_id="listWaste", response=WastePage, tags=["costs"])
def waste(
    request: HttpRequest,
    period: PeriodAsked,
    where: Where,
    paging: Paging,
    group_by: Grouping = "team",
) -> Answer:
    """What each team, user, GPU model or other group cost (`cost_usd`) and wasted, by wasted
    dollars; the rows' cost sums to that of `totals`. The key "" is time that no job held. Jobs
    without a team (project, cost centre) are rows by the reason: "(none)" names no user or account,
    "(unmapped)" matches no mapping rule.

    By cause the rows cover idle, stalled and underused time, and, as "orphaned", what no job holds.
    Where nothing was diagnosed the cause is "undetermined"; it is never guessed. A cause is of all
    of these states together: by cause no `state` is taken.
    """
    wanted = asked(request)
    scope = where.scope()
    if group_by == "cause" and scope.states is not None:
        raise RequestError("a cause is of several states: none is told apart", field="state")
    if group_by == "job":
        jobs = costs.ranked(
            wanted.interval, "job", scope=scope, start=wanted.offset, size=paging.limit
        )
        return wanted.answer(
            group_by=group_by,
            totals=figures(jobs.totals),
            rows=list(map(Joined, rows_of_ranked(jobs), jobs.groups)),
            next_cursor=wanted.following(paging.limit, more=jobs.after.groups > 0),
        )
    groups = _wasted(wanted.interval, group_by, scope)
    return wanted.answer(
        group_by=group_by,
        totals=figures(groups.totals),
        **wanted.listed(_lines(groups.lines), paging.limit),
    )


def _wasted(interval: Interval, group_by: str, scope: Scope) -> Breakdown:
    if group_by != "cause":
        return costs.breakdown(interval, group_by, scope=scope)
    return diagnosis.waste_by_cause(interval, scope=scope)


@router.get("/jobs", operation_id="listJobs", response=JobPage, tags=["jobs"])
def jobs(
    request: HttpRequest,
    period: PeriodAsked,
    where: Where,
    paging: Paging,
    cause: Name = None,
) -> Answer:
    """Jobs that held GPU time in the period, of a `cause` those that lost time to it, by wasted
    dollars; `queues` is what jobs wait for at this moment, whatever the filter.
    """
    wanted = asked(request)
    scope = where.scope(is_allocated=True)
    seen = costs.look(wanted.interval, "job", scope=scope)
    if cause is not None:
        seen = seen.of("job", list(diagnosis.wasted_by_cause(cause, wanted.interval, scope=scope)))
    page = seen.ranked("job", paging.limit, start=wanted.offset)
    now_ms = to_ms(timezone.now())
    return wanted.answer(
        totals=figures(page.totals),
        rows=job_rows(page, wanted.interval, scope),
        queues=queue_rows(waiting(now_ms), pending_jobs(now_ms)),
        next_cursor=wanted.following(paging.limit, more=page.after.groups > 0),
    )


def job_rows(page: Ranked, interval: Interval, scope: Scope) -> list[Joined]:
    """Of the page's groups those that are jobs, each with its cause."""
    jobs = attribution.jobs_by_key((group.key for group in page.groups), before=interval.end)
    with_outcomes(jobs.values())
    job_ids = [job.pk for job in jobs.values()]
    why = diagnosis.primary_causes(interval, scope=scope, job_ids=job_ids)
    return [
        job_row(jobs[group.key], shape, why)
        for group, shape in zip(page.groups, rows_of_ranked(page), strict=True)
        if group.key in jobs
    ]


@router.get("/jobs/{path:key}", operation_id="getJob", response=JobDetail, tags=["jobs"])
def job(request: HttpRequest, key: str, period: PeriodAsked) -> Joined:
    """One job over its life (of more than 90 days the last 90), or in the period. Its key's slashes
    are literal: /jobs/slurm/della/4711.

    Nodes that name several owners hold several jobs of one key: this is the first that held GPUs
    for long; `namesakes` are the others.
    """
    job = required(job_of_key(_text(key)), "job", field="key")
    wanted = asked(request, whole=held_interval(job))
    with_outcomes(attribution.into_teams([job], before=wanted.interval.end))
    scope = Scope(job=job.key)
    by_gpu = costs.breakdown(wanted.interval, "gpu", scope=scope)
    why = diagnosis.primary_causes(wanted.interval, scope=scope)
    return Joined(
        job_row(job, figures(by_gpu.totals), why, _evidence(job, why)),
        gpus=_lines(by_gpu.lines),
        namesakes=namesakes(job),
        contradictions=contradictions(job),
        history=changes(job),
        **wanted.echo(),
    )


def _evidence(job: Job, why: Why) -> Sequence[str]:
    """A sentence per sign of the job's first cause; none where its telemetry is gone."""
    seen = evidence.evidence(job, why[job.pk][0].cause) if job.pk in why else None
    return seen.lines if seen else ()


@router.get("/nodes", operation_id="listNodes", response=NodePage, tags=["fleet"])
def nodes(request: HttpRequest, period: PeriodAsked, where: Where, paging: Paging) -> Answer:
    """All nodes by name, each with its figures in the period; narrowed, those with such time in it.

    A host that only imports accounting is none.
    """
    wanted = asked(request)
    scope = where.scope()
    groups = costs.breakdown(wanted.interval, "node", scope=scope)
    page, following = wanted.page(_asked_nodes(scope, groups), paging.limit)
    by_name = _figures_by_key(groups.lines)
    ids = [node.pk for node in page]
    sources = job_sources(ids)
    drains = telemetry.drains(ids)
    lines = [
        node_row(node, by_name[node.name], sources.get(node.pk, []), drains.get(node.pk))
        for node in page
    ]
    return wanted.answer(totals=figures(groups.totals), rows=lines, next_cursor=following)


def _asked_nodes(scope: Scope, groups: Breakdown) -> QuerySet[Node]:
    """All of them, or where the scope is narrower those with time in these groups."""
    rows = hosts().prefetch_related("gpus").order_by("name")
    if scope == EVERYTHING:
        return rows
    return rows.filter(name__in=[group.key for group in groups.lines])


@router.get("/gpus", operation_id="listGpus", response=GPUPage, tags=["fleet"])
def gpus(
    request: HttpRequest,
    period: PeriodAsked,
    where: Where,
    paging: Paging,
) -> Answer:
    """All physical GPUs by node and index, retired ones too, each with its figures in the period;
    of a node also those that left it. Narrowed by what jobs or states are: those with such time.
    """
    wanted = asked(request)
    scope = where.scope()
    page, following = wanted.page(_asked_gpus(scope, wanted.interval), paging.limit)
    newest = inventory.newest_rows(gpu.uuid for gpu in page)
    groups = costs.some_gpus(wanted.interval, [gpu.pk for gpu in newest.values()], scope=scope)
    by_uuid = _figures_by_key(groups.lines)
    lines = [Joined(by_uuid[gpu.uuid], gpu) for gpu in page]
    return wanted.answer(totals=figures(groups.totals), rows=lines, next_cursor=following)


def _asked_gpus(scope: Scope, interval: Interval) -> QuerySet[GPU]:
    """Those of the node and model; asked for what jobs or states are, of these those with such time
    in the interval.
    """
    rows = _physical(scope.node, scope.gpu_model)
    if scope == Scope(node=scope.node, gpu_model=scope.gpu_model):
        return rows
    with_time = costs.breakdown(interval, "gpu", scope=scope)
    return rows.filter(_is_or_has([group.key for group in with_time.lines]))


def _is_or_has(uuids: Sequence[str]) -> Q:
    """The GPUs of these UUIDs, and those whose instances they are."""
    return Q(uuid__in=uuids) | Q(pk__in=GPU.objects.filter(uuid__in=uuids).values("parent_id"))


def _physical(node: str | None, gpu_model: str | None) -> QuerySet[GPU]:
    gpus = GPU.objects.filter(parent__isnull=True, first_ms__isnull=False)
    gpus = inventory.here(gpus) if node is None else gpus.filter(node__name=node)
    if gpu_model is not None:
        gpus = gpus.filter(model__name=gpu_model)
    gpus = gpus.select_related("node", "model", "parent").prefetch_related("instances")
    return gpus.order_by("node__name", "index", "uuid")


@router.get("/gpus/{uuid}", operation_id="getGpu", response=GPUDetail, tags=["fleet"])
def gpu(request: HttpRequest, uuid: str, period: PeriodAsked) -> Joined:
    """One GPU or MIG instance in the period, where it was from when to when, and what it cost per
    hour from when to when.
    """
    wanted = asked(request)
    gpu = _gpu(uuid)
    return Joined(
        figures(costs.totals(wanted.interval, scope=Scope(gpu=gpu.uuid))),
        gpu,
        rates=GPURate.objects.filter(gpu=gpu).order_by("valid_from"),
        stays=inventory.life(gpu.uuid),
        idle_power=idle_power_row(gpu),
        **wanted.echo(),
    )


@router.get("/gpus/{uuid}/series", operation_id="getGpuSeries", response=Series, tags=["fleet"])
def gpu_series(
    request: HttpRequest,
    uuid: str,
    period: PeriodAsked,
    metrics: Annotated[
        str, Query(max_length=1000, description="columns of the wire format, with commas")
    ] = "util_mean,power_w",
    step_s: Annotated[
        int | None,
        Query(
            ge=1, le=86_400, description="seconds; without it the finest step of at most 400 points"
        ),
    ] = None,
) -> HttpResponse:
    """Columns of the GPU's windows, evenly spaced: means, or the maximum and minimum of columns
    named so. A gap is null.
    """
    wanted = asked(request)
    series = series_of(_gpu(uuid), wanted.interval, metrics=metrics, step_s=step_s)
    # a day of sixteen columns is 140,000 numbers: checking each against the schema took longer than
    # reading them
    return HttpResponse(msgspec.json.encode(series), content_type="application/json; charset=utf-8")


@router.get("/rates", operation_id="listRates", response=RatePage, tags=["costs"])
def rates(request: HttpRequest, period: PeriodAsked, paging: Paging) -> Answer:
    """Every rate there is or was, or those that held at some moment of a period: GPU models',
    nodes', pools' and single GPUs'. node_class and region narrow a model's.
    """
    wanted = asked(request, whole=ALWAYS)
    held = Q(valid_from__lt=wanted.interval.end) & (
        Q(valid_to=None) | Q(valid_to__gt=wanted.interval.start)
    )
    return wanted.listed(book.rates().filter(held), paging.limit)


@router.get("/mappings", operation_id="listMappings", response=MappingPage, tags=["costs"])
def mappings(request: HttpRequest, period: PeriodAsked, paging: Paging) -> Answer:
    """Every mapping rule, or those that held at some moment of a period, in the order in which they
    are asked: the first that matches and names a team gives the team.
    """
    wanted = asked(request, whole=ALWAYS)
    held = [
        Joined(rule, place=place)
        for place, rule in enumerate(attribution.rules(), start=1)
        if rule.valid_from < wanted.interval.end
        and (rule.valid_to is None or rule.valid_to > wanted.interval.start)
    ]
    return wanted.listed(held, paging.limit)


def _lines(groups: list[Group]) -> list[Joined]:
    return list(map(Joined, rows_of_figures([group.totals for group in groups]), groups))


def _figures_by_key(groups: list[Group]) -> dict[str, Joined]:
    """The figures of each group by its key; what has none has those of nothing."""
    return defaultdict(lambda: figures(nothing()), {line.key: line for line in _lines(groups)})


def _gpu(uuid: str) -> GPU:
    return required(inventory.gpu(_text(uuid)), "GPU", field="uuid")


def _text(name: str) -> str:
    """The name without what Postgres can't hold: nothing is called so."""
    return name.replace("\x00", "\N{REPLACEMENT CHARACTER}")


def _cause(primary: Primary | None, evidence: Sequence[str]) -> Joined:
    """Why a job wastes; where nothing was diagnosed nobody knows: said, and not left out."""
    if primary is None or primary.cause == UNDETERMINED:
        return Joined(key=UNDETERMINED, confidence=None, evidence=())
    confidence = CONFIDENCES[primary.confidence] or None
    return Joined(key=primary.cause, confidence=confidence, evidence=evidence)


def job_row(job: Job, shape: Joined, why: Why, evidence: Sequence[str] = ()) -> Joined:
    """`why`: of jobs by their ids, where something was diagnosed; `evidence` of the first cause."""
    primary, saving = why.get(job.pk, (None, None))
    wait = wait_ms(job)
    return Joined(
        shape,
        job,
        wait_s=None if wait is None else wait / 1000,
        partition=_label(job, "partition"),
        qos=_label(job, "qos"),
        primary_cause=_cause(primary, evidence),
        savings_gpu_hours=saving and [gpu_hours(saving.low_ms), gpu_hours(saving.high_ms)],
        savings_usd=saving and [usd(saving.low_usd), usd(saving.high_usd)],
    )


def _label(job: Job, name: str) -> str | None:
    return str(job.labels[name]) if name in job.labels else None


def queue_rows(queues: Sequence[Queue], pending: Sequence[PendingJobs]) -> list[Joined]:
    """What agents tell of clusters' whole queues, then what accounting told of partitions' jobs
    that wait.
    """
    untold = dict.fromkeys(("partition", "jobs", "since_ms"))
    return [
        *(Joined(queue, told_by="agent", **untold) for queue in queues),
        *(Joined(partition, told_by="accounting", told_ms=None) for partition in pending),
    ]


def node_row(
    node: Node, shape: Joined, sources: Sequence[JobSource], drain: Drain | None
) -> Joined:
    """`drain`: None = the node takes jobs."""
    count = sum(
        gpu.parent_id is None and gpu.first_ms is not None and gpu.retired_ms is None
        for gpu in node.gpus.all()
    )
    return Joined(shape, node, sources=sources, drained=drain, gpu_count=count)


def idle_power_row(gpu: GPU) -> Joined | None:
    """What the GPU draws at idle and how that is known; None where it is not."""
    row = idle_power(gpu)
    if row is not None:
        return Joined(row, source="learned" if row.readings else "set")
    if gpu.model is None or gpu.model.idle_w is None:
        return None
    return Joined(watts=gpu.model.idle_w, source="model", readings=0, first_ms=None, last_ms=None)
