"""The endpoints of /api/v1 that read: parse, select, shape. Nothing here writes."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import msgspec
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Query, Router

from fleetwatch.alerts.models import Incident
from fleetwatch.api import list_rows, schemas
from fleetwatch.api.answer_types import Joined
from fleetwatch.api.money_figures import figures, rows_of_figures, rows_of_ranked
from fleetwatch.api.request_period import ALWAYS, RequestError, asked
from fleetwatch.api.series import series_of
from fleetwatch.api.vocabulary import Grouping
from fleetwatch.costs.held import held_interval
from fleetwatch.costs.mapping import attribution
from fleetwatch.costs.mapping.attribution import into_teams
from fleetwatch.costs.models import GPURate
from fleetwatch.costs.rates import book
from fleetwatch.diagnosis import selectors as diagnosis
from fleetwatch.diagnosis.cause_totals import Saving
from fleetwatch.diagnosis.findings import evidence
from fleetwatch.diagnosis.queues import waiting
from fleetwatch.diagnosis.selectors import CAUSED_STATES, Primary
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.totals import Group, Scope, nothing
from fleetwatch.inventory import selectors as inventory
from fleetwatch.inventory.models import GPU
from fleetwatch.inventory.selectors import hosts
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.outcomes import with_outcomes
from fleetwatch.jobs.selectors import (
    changes,
    contradictions,
    job_ids,
    job_sources,
    namesakes,
    pending_jobs,
)
from fleetwatch.jobs.selectors import job as job_of_key
from fleetwatch.lib.intervals import to_ms
from fleetwatch.telemetry import selectors as telemetry

Answer = dict[str, Any]
Period = Query[schemas.PeriodQuery]
Where = Query[schemas.Filter]
Paging = Query[schemas.Page]

router = Router()


@router.get(
    "/fleet/summary", operation_id="getFleetSummary", response=schemas.Summary, tags=["fleet"]
)
def fleet_summary(request: HttpRequest, period: Period) -> Joined:
    """GPU time by state, its dollars and its waste, of the whole fleet; and what the fleet costs at
    this moment.
    """
    wanted = asked(request)
    now = costs.spending_now(timezone.now())
    return Joined({**wanted.echo(), "now": now}, figures(costs.totals(wanted.interval)))


@router.get("/waste", operation_id="listWaste", response=schemas.WastePage, tags=["waste"])
def waste(
    request: HttpRequest, period: Period, where: Where, paging: Paging, group_by: Grouping = "team"
) -> Answer:
    """Rows by wasted dollars. The key "" is time that no job held. Jobs without a team (project,
    cost centre) are rows by the reason: "(none)" names no user or account, "(unmapped)" matches no
    mapping rule.

    By cause the rows cover idle, stalled and underused time, and, as "orphaned", what no job holds.
    Where nothing was diagnosed the cause is "undetermined"; it is never guessed.
    """
    wanted = asked(request)
    by_cause = group_by == "cause"
    scope = Scope(**where.dict(), states=CAUSED_STATES if by_cause else None)
    if group_by == "job":
        jobs = costs.ranked(
            wanted.interval, "job", scope=scope, start=wanted.offset, size=paging.limit
        )
        page, following = (
            _lines(jobs.groups, rows_of_ranked(jobs)),
            wanted.following(paging.limit, more=jobs.after.groups > 0),
        )
        return wanted.echo() | {
            "group_by": group_by,
            "totals": figures(jobs.totals),
            "rows": page,
            "next_cursor": following,
        }
    find = diagnosis.waste_by_cause if by_cause else partial(costs.breakdown, group_by=group_by)
    found = find(wanted.interval, scope=scope)
    page, following = wanted.page(
        _lines(found.lines, rows_of_figures([group.totals for group in found.lines])), paging.limit
    )
    return wanted.echo() | {
        "group_by": group_by,
        "totals": figures(found.totals),
        "rows": page,
        "next_cursor": following,
    }


@router.get("/jobs", operation_id="listJobs", response=schemas.JobPage, tags=["jobs"])
def jobs(
    request: HttpRequest, period: Period, where: Query[schemas.JobFilter], paging: Paging
) -> Answer:
    """Jobs that held GPU time in the period, by wasted dollars; `queues` is what jobs wait for at
    this moment, whatever the filter.
    """
    wanted = asked(request)
    scope = Scope(**where.dict(exclude={"kind", "cluster"}), is_allocated=True)
    among = job_ids(kind=where.kind, cluster=where.cluster)
    seen = costs.look(wanted.interval, "job", scope=scope).of("job", among)
    page = seen.ranked("job", paging.limit, start=wanted.offset)
    named = Job.objects.select_related("team").filter(key__in=[group.key for group in page.groups])
    found = {job.key: job for job in with_outcomes(into_teams(named, before=wanted.interval.end))}
    why = diagnosis.primary_causes(
        wanted.interval, scope=scope, job_ids=[job.pk for job in found.values()]
    )
    told = zip(page.groups, rows_of_ranked(page), strict=True)
    lines = [_job_row(found[group.key], shape, why) for group, shape in told if group.key in found]
    following = wanted.following(paging.limit, more=page.after.groups > 0)
    now_ms = to_ms(timezone.now())
    queues = list_rows.queue_rows(waiting(now_ms), pending_jobs(now_ms))
    return wanted.echo() | {
        "totals": figures(page.totals),
        "rows": lines,
        "queues": queues,
        "next_cursor": following,
    }


@router.get("/jobs/{path:key}", operation_id="getJob", response=schemas.JobDetail, tags=["jobs"])
def job(request: HttpRequest, key: str, period: Period) -> Joined:
    """One job over its life (of more than 90 days the last 90), or in the period. Its key's slashes
    are literal: /jobs/slurm/della/4711.

    Nodes that name several owners hold several jobs of one key: this is the first that held GPUs
    for long; `namesakes` are the others.
    """
    found = job_of_key(_text(key))
    if found is None:
        raise RequestError("there is no such job", field="key", status=404)
    wanted = asked(request, whole=held_interval(found))
    with_outcomes(into_teams([found], before=wanted.interval.end))
    scope = Scope(job=found.key)
    groups = costs.totals_by(wanted.interval, "gpu", scope=scope)
    shapes = rows_of_figures([group.totals for group in groups])
    why = diagnosis.primary_causes(wanted.interval, scope=scope)
    seen = evidence.evidence(found, why[found.pk][0].cause) if found.pk in why else None
    row = _job_row(
        found, figures(costs.totals(wanted.interval, scope=scope)), why, seen.lines if seen else ()
    )
    more = {
        "gpus": _lines(groups, shapes),
        "namesakes": namesakes(found),
        "contradictions": contradictions(found),
        "history": changes(found),
    }
    return Joined(wanted.echo() | more, row)


@router.get("/nodes", operation_id="listNodes", response=schemas.NodePage, tags=["fleet"])
def nodes(request: HttpRequest, period: Period, paging: Paging) -> Answer:
    """All nodes by name, each with its figures in the period.

    A host that only imports accounting is none.
    """
    wanted = asked(request)
    page, following = wanted.page(hosts().prefetch_related("gpus").order_by("name"), paging.limit)
    found = costs.breakdown(wanted.interval, "node")
    by_name = _figures_by_key(found.lines)
    ids = [node.pk for node in page]
    sources, drains = job_sources(ids), telemetry.drains(ids)
    lines = [
        list_rows.node_row(
            node,
            by_name.get(node.name) or figures(nothing()),
            sources.get(node.pk, []),
            drains.get(node.pk),
        )
        for node in page
    ]
    return wanted.echo() | {
        "totals": figures(found.totals),
        "rows": lines,
        "next_cursor": following,
    }


@router.get("/gpus", operation_id="listGpus", response=schemas.GPUPage, tags=["fleet"])
def gpus(
    request: HttpRequest,
    period: Period,
    paging: Paging,
    node: schemas.Name = None,
    gpu_model: schemas.Name = None,
) -> Answer:
    """All physical GPUs by node and index, retired ones too, each with its figures in the period;
    of a node also those that left it.
    """
    wanted = asked(request)
    physical = GPU.objects.filter(parent__isnull=True, first_ms__isnull=False).order_by(
        "node__name", "index", "uuid"
    )
    listed = inventory.here(physical) if node is None else physical.filter(node__name=node)
    listed = listed if gpu_model is None else listed.filter(model__name=gpu_model)
    page, following = wanted.page(
        listed.select_related("node", "model", "parent").prefetch_related("instances"), paging.limit
    )
    newest = inventory.newest_rows(gpu.uuid for gpu in page)
    told = costs.some_gpus(
        wanted.interval,
        [gpu.pk for gpu in newest.values()],
        scope=Scope(node=node, gpu_model=gpu_model),
    )
    by_uuid = _figures_by_key(told.lines)
    lines = [Joined(by_uuid.get(gpu.uuid) or figures(nothing()), gpu) for gpu in page]
    return wanted.echo() | {"totals": figures(told.totals), "rows": lines, "next_cursor": following}


@router.get("/gpus/{uuid}", operation_id="getGpu", response=schemas.GPUDetail, tags=["fleet"])
def gpu(request: HttpRequest, uuid: str, period: Period) -> Joined:
    """One GPU or MIG instance in the period, where it was from when to when, and what it cost per
    hour from when to when.
    """
    wanted = asked(request)
    found = _gpu(uuid)
    total = costs.totals(wanted.interval, scope=Scope(gpu=found.uuid))
    more = {
        "rates": GPURate.objects.filter(gpu=found).order_by("valid_from"),
        "stays": inventory.life(found.uuid),
        "idle_power": list_rows.idle_power_row(found),
    }
    return Joined(wanted.echo() | more, figures(total), found)


@router.get(
    "/gpus/{uuid}/series", operation_id="getGpuSeries", response=schemas.Series, tags=["fleet"]
)
def gpu_series(
    request: HttpRequest,
    uuid: str,
    period: Period,
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
    told = series_of(_gpu(uuid), wanted.interval, metrics=metrics, step_s=step_s)
    # a day of sixteen columns is 140,000 numbers: checking each against the schema took longer than
    # reading them
    return HttpResponse(msgspec.json.encode(told), content_type="application/json; charset=utf-8")


@router.get("/rates", operation_id="listRates", response=schemas.RatePage, tags=["costs"])
def rates(request: HttpRequest, period: Period, paging: Paging) -> Answer:
    """Every rate there is or was, or those that held at some moment of a period: GPU models',
    nodes', pools' and single GPUs'. node_class and region narrow a model's.
    """
    wanted = asked(request, whole=ALWAYS)
    start, end = wanted.interval.start, wanted.interval.end
    held = Q(valid_from__lt=end) & (Q(valid_to=None) | Q(valid_to__gt=start))
    page, following = wanted.page(book.rates().filter(held), paging.limit)
    return {"rows": page, "next_cursor": following}


@router.get("/mappings", operation_id="listMappings", response=schemas.MappingPage, tags=["costs"])
def mappings(request: HttpRequest, period: Period, paging: Paging) -> Answer:
    """Every mapping rule, or those that held at some moment of a period, in the order in which they
    are asked: the first that matches and names a team gives the team.
    """
    wanted = asked(request, whole=ALWAYS)
    start, end = wanted.interval.start, wanted.interval.end
    held = [
        Joined({"place": place}, rule)
        for place, rule in enumerate(attribution.rules(), start=1)
        if rule.valid_from < end and (rule.valid_to is None or rule.valid_to > start)
    ]
    page, following = wanted.page(held, paging.limit)
    return {"rows": page, "next_cursor": following}


@router.get(
    "/incidents", operation_id="listIncidents", response=schemas.IncidentPage, tags=["alerts"]
)
def incidents(request: HttpRequest, period: Period, paging: Paging) -> Answer:
    """Incidents that were open at some moment of the period."""
    wanted = asked(request)
    overlapping = Q(opened_at__lt=wanted.interval.end) & (
        Q(resolved_at__isnull=True) | Q(resolved_at__gte=wanted.interval.start)
    )
    page, following = wanted.page(
        Incident.objects.select_related("rule").filter(overlapping).order_by("-opened_at", "-pk"),
        paging.limit,
    )
    return {"rows": page, "next_cursor": following}


def _job_row(
    job: Job, shape: Joined, why: Mapping[int, tuple[Primary, Saving]], lines: Sequence[str] = ()
) -> Joined:
    primary, saving = why.get(job.pk, (None, None))
    return list_rows.job_row(job, shape, list_rows.cause_of(primary, lines), saving)


def _lines(groups: list[Group], shapes: list[Joined]) -> list[Joined]:
    return [Joined(shape, group) for group, shape in zip(groups, shapes, strict=True)]


def _figures_by_key(groups: list[Group]) -> dict[str, Joined]:
    shapes = rows_of_figures([group.totals for group in groups])
    return {group.key: shape for group, shape in zip(groups, shapes, strict=True)}


def _gpu(uuid: str) -> GPU:
    row = inventory.gpu(_text(uuid))
    if row is None:
        raise RequestError("there is no such GPU", field="uuid", status=404)
    return row


def _text(name: str) -> str:
    """The name without what Postgres can't hold: nothing is called so."""
    return name.replace("\x00", "\N{REPLACEMENT CHARACTER}")
