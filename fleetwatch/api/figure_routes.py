"""What a figure of costs is made of: state by state under each rate, and the jobs or GPUs in it,
each with the way to its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal
from urllib.parse import urlencode

from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from fleetwatch.api import schemas
from fleetwatch.api.answer_types import Joined, Usd
from fleetwatch.api.money_figures import rows_of_ranked
from fleetwatch.api.request_period import Asked, asked
from fleetwatch.api.vocabulary import State, Tier
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.breakdown import Term
from fleetwatch.figures.pricing import lines, usd
from fleetwatch.figures.totals import Scope

Answer = dict[str, Any]

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
    period: Query[schemas.PeriodQuery],
    where: Query[FigureScope],
    paging: Query[schemas.Page],
    state: State | None = None,
) -> Answer:
    """What any figure of costs is made of: state by state under each rate, and the jobs in it (of
    one job: its GPUs), dearest first.
    """
    wanted = asked(request)
    named = where.dict(exclude_none=True)
    scope = Scope(**named, states=None if state is None else (state,))
    told = costs.traced(wanted.interval, scope=scope, start=wanted.offset, size=paging.limit)
    rows = zip(told.parts.groups, rows_of_ranked(told.parts), strict=True)
    further = _Further(wanted, told.parts_by, named | ({} if state is None else {"state": state}))
    return wanted.echo() | {
        "usd": told.totals.cost_usd,
        "gpu_ms": told.totals.capacity_ms,
        "unpriced_ms": told.totals.unpriced_ms,
        "terms": _terms(told.terms, usd(told.totals.cost_usd)),
        "parts_by": told.parts_by,
        "parts": [
            Joined({"explain": further.address(group.key)}, shape, group) for group, shape in rows
        ],
        "next_cursor": wanted.following(paging.limit, more=told.parts.after.groups > 0),
    }


def _terms(told: Sequence[Term], total: Decimal) -> list[Joined]:
    dollars = iter(lines([term.usd for term in told if term.usd is not None], total=total))
    return [Joined({"usd": None if term.usd is None else next(dollars)}, term) for term in told]


@dataclass(frozen=True, slots=True)
class _Further:
    """How the parts of a figure are asked for."""

    wanted: Asked
    parts_by: str
    named: Mapping[str, str]

    def address(self, key: str) -> str:
        """A job by its GPUs, a GPU by its entries and windows: of the newest six hours with any."""
        period = {"from": self.wanted.interval.start_ms, "to": self.wanted.interval.end_ms}
        if self.parts_by == "job":
            return f"/api/v1/explain/figure?{urlencode({**self.named, 'job': key, **period})}"
        narrowed = {name: value for name, value in self.named.items() if name in ("job", "state")}
        return f"/api/v1/explain?{urlencode({'gpu': key, **narrowed, **period, 'newest': 'true'})}"
