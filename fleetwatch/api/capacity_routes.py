"""Capacity in the read API: what there is of each GPU model beside what jobs held of it, and the
last weeks replayed with other GPUs.
"""

from collections.abc import Sequence
from datetime import datetime
from math import isnan
from typing import Annotated

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router, Schema
from pydantic import Field

from fleetwatch.accounts.selectors import zone
from fleetwatch.api.answer_types import Answer, Joined, UsdOrNone, fields_of
from fleetwatch.api.request_period import RequestError, asked
from fleetwatch.api.schemas import Name, Period, PeriodAsked
from fleetwatch.finance.released import contracts, released
from fleetwatch.inventory.models import GPUModel
from fleetwatch.planning.model_hours import ModelHours, Spread, by_clock, total
from fleetwatch.planning.model_lines import model_lines, whole_line
from fleetwatch.planning.replayed_runs import Outcome
from fleetwatch.planning.selectors import (
    Narrowed,
    WhileWaiting,
    model_hours,
    while_waiting,
    whole_hours,
)
from fleetwatch.planning.what_if import MOST_GPUS, TooManyHoldsError, past, what_if
from fleetwatch.planning.what_if import Asked as AskedGPUs

router = Router(tags=["capacity"])

GPUs = Annotated[int, Query(ge=0, le=MOST_GPUS)]


class HeldGPUs(fields_of(Spread)):  # type: ignore[misc]
    """GPUs held by jobs on the mean of an hour: in half of the hours as many or fewer, in 95 of
    100, and in that with most.
    """


class CapacityRow(Schema):
    """One GPU model, or all of them; `gpus` are those of the last hour.

    Of the free time `whole_ms` was on nodes of which every GPU was free all the hour.
    """

    gpu_model: str
    gpus: float
    held: HeldGPUs | None
    spare: float | None = Field(description="gpus - held.p95")
    capacity_ms: int
    held_ms: int
    active_ms: int
    idle_ms: int
    free_ms: int
    whole_ms: int
    unseen_ms: int


class FreeWhileWaiting(fields_of(WhileWaiting)):  # type: ignore[misc]
    """GPU time that stood free while jobs of the same cluster waited, and what of it these could
    have used, at least and at most.
    """


class Capacity(Period):
    """Of counted_from to counted_to: the whole hours of the period that are recorded and posted,
    the last 100 days of them; null without one. `whole` is hour by hour, so that its p95 is not the
    sum of the rows'.

    `by_hour_of_week`: GPUs free or idle on the mean, Monday first, 24 hours of the organisation's
    zone each.
    """

    counted_from: datetime | None
    counted_to: datetime | None
    whole: CapacityRow | None
    rows: list[CapacityRow]
    while_waiting: FreeWhileWaiting | None
    by_hour_of_week: list[list[float | None]]


@router.get("/capacity", operation_id="getCapacity", response=Capacity)
def capacity(
    request: HttpRequest,
    period: PeriodAsked,
    gpu_model: Name = None,
    node: Name = None,
    cluster: Name = None,
) -> Answer:
    """What there is of each GPU model beside what jobs held of it."""
    wanted = asked(request)
    narrowed = Narrowed(gpu_model, node, cluster)
    hours = whole_hours(wanted.interval, timezone.now())
    models = model_hours(hours, narrowed) if hours else []
    return wanted.answer(
        counted_from=hours and hours.start,
        counted_to=hours and hours.end,
        whole=whole_line(models),
        rows=model_lines(models),
        while_waiting=while_waiting(hours, narrowed) if hours else None,
        by_hour_of_week=_unused_by_clock(models),
    )


def _unused_by_clock(models: Sequence[ModelHours]) -> list[list[float | None]]:
    """Weekdays x hours; [] without hours."""
    hours = total(models)
    means = by_clock(hours.unused_ms, hours, zone()).tolist() if hours else []
    return [[None if isnan(each) else each for each in row] for row in means]


class ReplayedRuns(fields_of(Outcome)):  # type: ignore[misc]
    """What became of runs of jobs: fitted_ms + late_ms + unfit_ms is what they held.

    `late_ms` would have come after the end, `unfit` are runs larger than all GPUs that were left.
    `moved` ran on another model, `moved_ms` of what fitted; `hosted`: runs of others on this one.
    `cut` of those that `waited` still did at the end: with one of them waits are at least so long.
    """


class ReplayedModel(Schema):
    """One GPU model: of the runs that were on it, and the GPU time and dollars less (negative:
    more).
    """

    gpu_model: str
    gpus: int
    fewer: int
    outcome: ReplayedRuns
    saved_ms: int
    saved_usd: UsdOrNone = Field(description="at the rate, in these days; null: no rate held")
    by_the_hour: int = Field(description="GPUs that stop being paid at once; negative: that begin")
    bound_gpus: int = Field(description="GPUs that commitments pay for until they end")
    already_paid: int = Field(description="GPUs that come, of a commitment that has none for them")
    month_now_usd: UsdOrNone = Field(alias="now_usd")
    month_later_usd: UsdOrNone = Field(alias="later_usd")


class Replayed(Schema):
    """The last 30 days, or fewer where they have too many runs, from `start` to `end`.

    A month of 730 hours is cheaper (negative: dearer) by `month_now_usd` while commitments hold,
    and by `month_later_usd` from `free_from` on, once those of GPUs that go have ended: these at
    the contract's price, all others at the rate; null without a rate. `free_from` null: one has no
    end, or none is bound.
    """

    start: datetime = Field(alias="interval.start")
    end: datetime = Field(alias="interval.end")
    outcome: ReplayedRuns
    saved_ms: int
    saved_usd: UsdOrNone = Field(description="at the rates, in these days")
    bound_gpus: int
    already_paid: int
    month_now_usd: UsdOrNone = Field(alias="now_usd")
    month_later_usd: UsdOrNone = Field(alias="later_usd")
    free_from: datetime | None
    rows: list[ReplayedModel] = Field(alias="models")


@router.get("/capacity/what-if", operation_id="replayCapacity", response=Replayed)
def capacity_what_if(
    request: HttpRequest,
    less: GPUs = 0,
    less_of: Name = None,
    more: GPUs = 0,
    more_of: Name = None,
    elsewhere: bool = False,
) -> Joined:
    """The last 30 days of jobs with so many GPUs less of one model and more of another.

    Each run asks for its GPUs when it did start and keeps them as long as it did; who does not fit
    waits. Nodes, partitions and quotas are not asked. `elsewhere`: runs may take another model.
    """
    changes = _changes(("less_of", less_of, less), ("more_of", more_of, -more))
    now = timezone.now()
    try:
        replayed = what_if(AskedGPUs(changes, elsewhere), past(now))
    except TooManyHoldsError as error:
        raise RequestError("even one day has too many runs to replay", field=None) from error
    paid = released(replayed, contracts(now))
    return Joined(replayed, paid, models=[Joined(each.replay, each) for each in paid.models])


def _changes(*asked_gpus: tuple[str, str | None, int]) -> dict[str, int]:
    """GPUs fewer by model, of (field, model, GPUs fewer). Raises RequestError for an unknown
    model.
    """
    changes: dict[str, int] = {}
    for field, model, gpus in asked_gpus:
        if gpus and not GPUModel.objects.filter(name=model).exists():
            raise RequestError("there is no such GPU model", field=field)
        if gpus and model:
            changes[model] = changes.get(model, 0) + gpus
    return changes
