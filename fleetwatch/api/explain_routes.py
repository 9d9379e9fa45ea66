"""Why a figure is what it is: dollars, the entries behind them, the windows behind these, and the
rule that decided.
"""

from dataclasses import replace
from datetime import datetime
from typing import Annotated

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router, Schema
from pydantic import Field

from fleetwatch.api import schemas
from fleetwatch.api.answer_types import (
    Answer,
    At,
    Joined,
    KeyOrNone,
    Usd,
    UsdOrNone,
    UUIDOf,
    attribute,
)
from fleetwatch.api.request_period import RequestError, asked, required
from fleetwatch.api.vocabulary import State, Tier
from fleetwatch.costs.priced import Priced, priced
from fleetwatch.figures.totals import UNALLOCATED, ZERO
from fleetwatch.inventory import selectors as inventory
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.ledger import explain
from fleetwatch.ledger.models import Adjustment
from fleetwatch.ledger.models import Policy as PolicyRow
from fleetwatch.ledger.policy import Policy
from fleetwatch.lib.intervals import HOUR_MS

TOO_LONG = f"at most {explain.MAX_SPAN_MS // HOUR_MS} hours can be explained at once"

router = Router(tags=["ledger"])


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
    policy_version: Annotated[int, attribute("version")] = Field(alias="policy")
    gpu_ms: int
    energy_j: float | None
    usd_per_gpu_hour: Annotated[float | None, attribute("usd_per_gpu_hour")] = Field(alias="rate")
    rate_source: Annotated[str | None, attribute("rate.source")] = Field(alias="rate")
    usd: UsdOrNone
    is_adjustment: bool
    cause: str | None
    booked_at: datetime | None


class ExplainedPart(Schema):
    state: State
    kind: str
    reason: str
    tier: Tier
    signal: str
    efficiency_source: str
    gpu_ms: int


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

    gpu: Annotated[str, Field(max_length=400, pattern="^[^\\x00]*$")]
    job: schemas.Name = None
    state: State | None = None
    newest: bool = False


class Explanation(schemas.Period):
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
    openapi_extra=schemas.MAY_BE_MISSING,
)
def explained(
    request: HttpRequest,
    period: schemas.PeriodAsked,
    what: Query[ExplainQuery],
) -> Answer:
    """Up to 6 hours of one GPU (with its MIG instances), of one job or state alone where named."""
    wanted = asked(request)
    if wanted.interval.duration_ms > explain.MAX_SPAN_MS and not what.newest:
        raise RequestError(TOO_LONG, field="from")
    gpu = required(inventory.gpu(what.gpu), "GPU", field="gpu")
    which: Answer = {"job_id": _job_id(what.job), "state": what.state}
    if what.newest:
        wanted = replace(wanted, interval=explain.newest(gpu, wanted.interval, **which))
    lines = priced(explain.rows(gpu, wanted.interval, **which))
    return wanted.echo() | {
        "gpu": gpu.uuid,
        "is_final": explain.is_final(wanted.interval, timezone.now()),
        **_behind(lines, explain.stretches(gpu, wanted.interval, **which)),
    }


def _behind(lines: list[Priced], windows: list[explain.Stretch]) -> Answer:
    """The dollars, the entries that they sum, the windows behind these, and the thresholds that
    decided.
    """
    versions = {line.row.policy.version for line in lines}
    versions |= {window.policy_version for window in windows}
    return {
        "usd": sum((line.usd or ZERO for line in lines), start=ZERO),
        "entries": list(map(_entry, lines)),
        "windows": _windows(windows),
        "policies": {
            str(row.version): Policy.from_json(row.thresholds).to_json()
            for row in PolicyRow.objects.filter(version__in=versions)
        },
    }


def _entry(line: Priced) -> Joined:
    if isinstance(line.row, Adjustment):
        return Joined({"is_adjustment": True}, line, line.row)
    return Joined({"is_adjustment": False, "cause": None, "booked_at": None}, line, line.row)


def _job_id(key: str | None) -> int | None:
    """None = whatever job."""
    if key is None:
        return None
    if key == UNALLOCATED:
        return explain.NOBODY
    job = Job.objects.filter(key=key).values_list("pk", flat=True).first()
    return required(job, "job", field="job")


def _windows(windows: list[explain.Stretch]) -> list[Joined]:
    gpus = GPU.objects.in_bulk({window.gpu_id for window in windows})
    jobs: dict[int | None, Job] = Job.objects.in_bulk({each.job_id for each in windows} - {None})
    return [
        Joined({"gpu": gpus[window.gpu_id], "job": jobs.get(window.job_id)}, window)
        for window in windows
    ]
