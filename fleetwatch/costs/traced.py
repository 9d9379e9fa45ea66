"""What a figure is made of: GPU time in a state under one rate, and the jobs or GPUs that had it. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from fleetwatch.costs import pricing
from fleetwatch.costs.cells import Cell
from fleetwatch.costs.ranking import Ranked
from fleetwatch.costs.totals import Totals
from fleetwatch.ledger.policy import STATES


@dataclass(frozen=True, slots=True)
class Term:
    """GPU time of one state and tier under one rate. `usd` is the product, not rounded; None = no rate held."""

    state: str
    tier: str
    usd_per_gpu_hour: Decimal | None
    is_example: bool
    gpu_ms: int
    usd: Decimal | None


@dataclass(frozen=True, slots=True)
class Traced:
    """A figure, the terms that sum to it, and some of the parts (jobs, of one job GPUs) that sum to it just as well."""

    totals: Totals
    terms: list[Term]
    parts_by: str  # job or gpu
    parts: Ranked


def terms(cells: Iterable[Cell]) -> list[Term]:
    """The terms of cells state by state in the ledger's order, of one state the dearest first."""
    return sorted(map(_term, cells), key=lambda term: (STATES.index(term.state), -(term.usd or 0), -term.gpu_ms, term.tier))


def _term(cell: Cell) -> Term:
    rate = cell.usd_per_gpu_hour
    usd = None if rate is None else pricing.cost_usd([(cell.gpu_ms, rate)])
    return Term(cell.state, cell.tier, rate, bool(cell.is_example), cell.gpu_ms, usd)
