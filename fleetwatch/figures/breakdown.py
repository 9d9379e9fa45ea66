"""What a figure is made of: GPU time in a state under one rate, and the jobs or GPUs that had it.

Pure.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from fleetwatch.figures import pricing
from fleetwatch.figures.cells import Cell
from fleetwatch.figures.ranking import Ranked
from fleetwatch.figures.state_spans import Kind
from fleetwatch.figures.totals import Totals
from fleetwatch.ledger.policy import STATES

_Key = tuple[str, str, Decimal | None, bool]  # of a term: all of it but its time


@dataclass(frozen=True, slots=True)
class Term:
    """GPU time of one state and tier under one rate.

    `usd` is the product, not rounded; None = no rate held.
    """

    state: str
    tier: str
    gpu_ms: int
    usd_per_gpu_hour: Decimal | None
    is_example_rate: bool
    usd: Decimal | None

    @property
    def shown(self) -> str:
        """The state as people see it; what only utilisation tells of is in useful."""
        return Kind(self.state, self.tier, is_busy_only=False).shown


@dataclass(frozen=True, slots=True)
class Traced:
    """A figure, the terms that sum to it, and some of the parts (jobs, of one job GPUs) that sum to
    it just as well.
    """

    totals: Totals
    terms: list[Term]
    parts_by: str  # job or gpu
    parts: Ranked


def terms(cells: Iterable[Cell]) -> list[Term]:
    """The terms of cells state by state in the ledger's order, of one state the dearest first."""
    sums: dict[_Key, int] = defaultdict(int)
    for cell in cells:
        rate, is_example = cell.price
        sums[cell.kind.state, cell.kind.tier, rate, bool(is_example)] += cell.gpu_ms
    return sorted(
        (
            Term(state, tier, gpu_ms, rate, is_example, _usd(gpu_ms, rate))
            for (state, tier, rate, is_example), gpu_ms in sums.items()
        ),
        key=lambda term: (STATES.index(term.state), -(term.usd or 0), -term.gpu_ms, term.tier),
    )


def _usd(gpu_ms: int, rate: Decimal | None) -> Decimal | None:
    return None if rate is None else pricing.price([(gpu_ms, rate)])
