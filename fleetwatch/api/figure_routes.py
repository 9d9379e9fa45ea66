"""What a figure of costs is made of: state by state under each rate, and the jobs or GPUs in it,
each with the way to its own.
"""

from collections.abc import Sequence
from typing import Literal
from urllib.parse import urlencode

from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from fleetwatch.api import schemas
from fleetwatch.api.answer_types import Answer, Joined, Usd
from fleetwatch.api.money_figures import rows_of_ranked
from fleetwatch.api.request_period import Asked, asked
from fleetwatch.api.vocabulary import State, Tier
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.breakdown import Term, Traced
from fleetwatch.figures.pricing import lines, usd
from fleetwatch.figures.totals import Scope, Totals

router = Router(tags=["ledger"])


class FigureTerm(Schema):
    """GPU time x dollars per GPU-hour = dollars; null: no rate held.

    The terms' dollars sum to `usd` to the micro-dollar.
    """

    state: State
    tier: Tier
    gpu_ms: int
    usd_per_gpu_hour: float | None
    is_example_rate: bool = Field(alias="is_example")
    usd: float | None


class FigurePart(schemas.WasteRow):
    """A job or a GPU in the figure, and the address at which it is explained: a GPU down to its
    windows and rules.
    """

    explain: str


class FigureExplanation(schemas.Period):
    """`parts_by` is job or gpu; the parts of all pages sum to `usd`, and so do the terms."""

    usd: Usd
    gpu_ms: int
    unpriced_ms: int
    terms: list[FigureTerm]
    parts_by: Literal["job", "gpu"]
    parts: list[FigurePart]
    next_cursor: str | None


class FigureScope(schemas.Filter):
    """Whose figure; "" as job is what no job held."""

    job: schemas.Name = None


@router.get("/explain/figure", operation_id="explainFigure", response=FigureExplanation)
def figure(
    request: HttpRequest,
    period: schemas.PeriodAsked,
    where: Query[FigureScope],
    paging: schemas.Paging,
    state: State | None = None,
) -> Answer:
    """What any figure of costs is made of: state by state under each rate, and the jobs in it (of
    one job: its GPUs), dearest first.
    """
    wanted = asked(request)
    named = where.dict(exclude_none=True)
    scope = Scope(**named, states=state and (state,))
    traced = costs.traced(wanted.interval, scope=scope, start=wanted.offset, size=paging.limit)
    if state is not None:
        named["state"] = state
    return {
        **wanted.echo(),
        **_summed(traced.totals, traced.terms),
        "parts_by": traced.parts_by,
        "parts": _parts(traced, named, wanted),
        "next_cursor": wanted.following(paging.limit, more=traced.parts.after.groups > 0),
    }


def _summed(totals: Totals, terms: Sequence[Term]) -> Answer:
    priced = [term.usd for term in terms if term.usd is not None]
    dollars = iter(lines(priced, total=usd(totals.cost_usd)))
    return {
        "usd": totals.cost_usd,
        "gpu_ms": totals.capacity_ms,
        "unpriced_ms": totals.unpriced_ms,
        "terms": [
            Joined({"usd": None if term.usd is None else next(dollars)}, term) for term in terms
        ],
    }


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
            {"explain": f"{address}?{urlencode(query | {traced.parts_by: group.key})}"},
            figures,
            group,
        )
        for group, figures in rows
    ]
