"""Why a figure is what it is: what it is made of, state by state under each rate and part by part;
the entries behind dollars, the windows behind these, and the rule that decided.
"""

from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Literal
from urllib.parse import urlencode

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router, Schema
from pydantic import Field

from fleetwatch.api.answer_types import (
    Answer,
    At,
    Joined,
    KeyOrNone,
    Usd,
    UsdOrNone,
    UUIDOf,
    fields_of,
)
from fleetwatch.api.money_figures import rows_of_ranked
from fleetwatch.api.request_period import Asked, RequestError, asked, required
from fleetwatch.api.schemas import (
    MAY_BE_MISSING,
    Filter,
    Name,
    NameGiven,
    Paging,
    Period,
    PeriodAsked,
    SeveralStates,
    WasteRow,
    states_of,
)
from fleetwatch.api.vocabulary import State, Tier
from fleetwatch.costs.priced import Priced, priced
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.breakdown import Term, Traced
from fleetwatch.figures.pricing import lines, usd
from fleetwatch.figures.totals import UNALLOCATED, ZERO
from fleetwatch.inventory import selectors as inventory
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.ledger import explain
from fleetwatch.ledger.models import Adjustment
from fleetwatch.ledger.models import Policy as PolicyRow
from fleetwatch.ledger.policy import Policy
from fleetwatch.lib.intervals import HOUR_MS

router = Router(tags=["ledger"])

TOO_LONG = f"at most {explain.MAX_SPAN_MS // HOUR_MS} hours can be explained at once"


class ExplainedEntry(Schema):
    """GPU time that figures sum.

    An adjustment is signed, has a cause, and belongs to the month in which it was booked.
    """

    start: datetime
    gpu: UUIDOf
    job: KeyOrNone
    state: State
    kind: str
    reason: str
    tier: Tier
    signal: str
    efficiency_source: str
    policy_version: int = Field(alias="policy.version")
    gpu_ms: int
    energy_j: float | None
    usd_per_gpu_hour: float | None = Field(alias="rate.usd_per_gpu_hour")
    rate_source: str | None = Field(alias="rate.rate.source")
    usd: UsdOrNone
    is_adjustment: bool
    cause: str | None
    booked_at: datetime | None


class ExplainedPart(fields_of(explain.Part)):  # type: ignore[misc]
    state: State
    tier: Tier


class ExplainedWindow(Schema):
    """Time in which one window (values; null: none) speaks for one holder (job; null: nobody).

    `rule` is what decided, in order.
    """

    start: At = Field(alias="start_ms")
    end: At = Field(alias="end_ms")
    gpu: UUIDOf
    job: KeyOrNone
    observed_ms: int | None
    values: dict[str, float] | None
    policy_version: int
    rule: list[str]
    parts: list[ExplainedPart]


class ExplainQuery(Schema):
    """`job` "" is what no job held; `newest`: of a longer period the newest 6 hours with anything
    of it.
    """

    gpu: NameGiven
    job: Name = None
    state: SeveralStates = None
    newest: bool = False


class Explanation(Period):
    """`entries` are of the whole hours; `windows` of the time asked for.

    `is_final`: windows are gone, entries stay.
    """

    gpu: str
    is_final: bool
    usd: Usd
    entries: list[ExplainedEntry]
    windows: list[ExplainedWindow]
    policies: dict[str, dict[str, float]]


@router.get(
    "/explain",
    operation_id="explainGpu",
    response=Explanation,
    openapi_extra=MAY_BE_MISSING,
)
def explained(
    request: HttpRequest,
    period: PeriodAsked,
    what: Query[ExplainQuery],
) -> Answer:
    """Up to 6 hours of one GPU (with its MIG instances), of one job or state alone where named."""
    wanted = asked(request)
    if wanted.interval.duration_ms > explain.MAX_SPAN_MS and not what.newest:
        raise RequestError(TOO_LONG, field="from")
    gpu = required(inventory.gpu(what.gpu), "GPU", field="gpu")
    which: Answer = {"job_id": _job_id(what.job), "states": states_of(what.state)}
    if what.newest:
        wanted = replace(wanted, interval=explain.newest(gpu, wanted.interval, **which))
    lines = priced(explain.rows(gpu, wanted.interval, **which))
    return wanted.answer(
        gpu=gpu.uuid,
        is_final=explain.is_final(wanted.interval, timezone.now()),
        **_behind(lines, explain.stretches(gpu, wanted.interval, **which)),
    )


def _behind(lines: list[Priced], windows: list[explain.Stretch]) -> Answer:
    """The dollars, the entries that they sum, the windows behind these, and the thresholds that
    decided.
    """
    versions = {line.row.policy.version for line in lines}
    versions |= {window.policy_version for window in windows}
    gpus = GPU.objects.in_bulk({window.gpu_id for window in windows})
    jobs: dict[int | None, Job] = Job.objects.in_bulk({each.job_id for each in windows} - {None})
    return {
        "usd": sum((line.usd or ZERO for line in lines), start=ZERO),
        "entries": list(map(_entry, lines)),
        "windows": [
            Joined(window, gpu=gpus[window.gpu_id], job=jobs.get(window.job_id))
            for window in windows
        ],
        "policies": {
            str(row.version): Policy.from_json(row.thresholds).to_json()
            for row in PolicyRow.objects.filter(version__in=versions)
        },
    }


def _entry(line: Priced) -> Joined:
    if isinstance(line.row, Adjustment):
        return Joined(line, line.row, is_adjustment=True)
    return Joined(line, line.row, is_adjustment=False, cause=None, booked_at=None)


def _job_id(key: str | None) -> int | None:
    """None = whatever job."""
    if key is None:
        return None
    if key == UNALLOCATED:
        return explain.NOBODY
    job = Job.objects.filter(key=key).values_list("pk", flat=True).first()
    return required(job, "job", field="job")


class FigureTerm(fields_of(Term, {Decimal | None: float | None})):  # type: ignore[misc]
    """GPU time x dollars per GPU-hour = dollars; null: no rate held.

    The terms' dollars sum to `usd` to the micro-dollar.
    """

    state: State
    tier: Tier


class FigurePart(WasteRow):
    """A job or a GPU in the figure, and the address at which it is explained: a GPU down to its
    windows and rules.
    """

    explain: str


class FigureExplanation(Period):
    """`parts_by` is job or gpu; the parts of all pages sum to `usd`, and so do the terms."""

    usd: Usd = Field(alias="cost_usd")
    gpu_ms: int = Field(alias="capacity_ms")
    unpriced_ms: int
    terms: list[FigureTerm]
    parts_by: Literal["job", "gpu"]
    parts: list[FigurePart]
    next_cursor: str | None


class FigureScope(Filter):
    """Whose figure; "" as job is what no job held."""

    job: Name = None


@router.get("/explain/figure", operation_id="explainFigure", response=FigureExplanation)
def figure(
    request: HttpRequest,
    period: PeriodAsked,
    where: Query[FigureScope],
    paging: Paging,
) -> Joined:
    """What any figure of costs is made of: state by state under each rate, and the jobs in it (of
    one job: its GPUs), dearest first.
    """
    wanted = asked(request)
    named = where.dict(exclude_none=True)
    traced = costs.traced(
        wanted.interval, scope=where.scope(), start=wanted.offset, size=paging.limit
    )
    return Joined(
        traced,
        traced.totals,
        terms=_terms(traced),
        parts=_parts(traced, named, wanted),
        next_cursor=wanted.following(paging.limit, more=traced.parts.after.groups > 0),
        **wanted.echo(),
    )


def _terms(traced: Traced) -> list[Joined]:
    """Their dollars sum to the figure's."""
    priced = [term.usd for term in traced.terms if term.usd is not None]
    dollars = iter(lines(priced, total=usd(traced.totals.cost_usd)))
    return [Joined(term, usd=None if term.usd is None else next(dollars)) for term in traced.terms]


def _parts(traced: Traced, named: Answer, wanted: Asked) -> list[Joined]:
    """Each with the address at which it is asked for."""
    period = {"from": wanted.interval.start_ms, "to": wanted.interval.end_ms}
    rows = zip(traced.parts.groups, rows_of_ranked(traced.parts), strict=True)
    address = "/api/v1/explain/figure"
    query = {**named, "job": "", **period}
    if traced.parts_by == "gpu":
        # by its entries and windows: of the newest six hours with any
        address = "/api/v1/explain"
        narrowed = {name: value for name, value in named.items() if name in ("job", "state")}
        query = {"gpu": "", **narrowed, **period, "newest": "true"}
    return [
        Joined(
            figures, group, explain=f"{address}?{urlencode(query | {traced.parts_by: group.key})}"
        )
        for group, figures in rows
    ]
