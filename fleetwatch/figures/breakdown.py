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
from fleetwatch.ledger.policy import SHOWN_STATES

# of a term all but its time: GPU model, kind, rate, whether that is an example
_Key = tuple[str, Kind, Decimal | None, bool]


@dataclass(frozen=True, slots=True)
class Term:
    """GPU time of one state, tier and GPU model under one rate.

    `usd` is the product, not rounded; None = no rate held.
    """

    state: str
    tier: str
    is_busy_only: bool  # of useful time: utilisation alone tells of it
    gpu_model: str
    gpu_ms: int
    usd_per_gpu_hour: Decimal | None
    is_example_rate: bool
    usd: Decimal | None

    @property
    def shown(self) -> str:
        """The state as people see it."""
        return Kind(self.state, self.tier, self.is_busy_only).shown


@dataclass(frozen=True, slots=True)
class Traced:
    """A figure, the terms that sum to it, and some of the parts (jobs, of one job GPUs) that sum to
    it just as well.
    """

    totals: Totals
    terms: list[Term]
    parts_by: str  # job or gpu
    parts: Ranked


def terms(of_models: Iterable[tuple[str, Iterable[Cell]]]) -> list[Term]:
    """The terms of cells by GPU model, state by state as people see them, of one state the dearest
    first.
    """
    sums: dict[_Key, int] = defaultdict(int)
    for model, cells in of_models:
        for cell in cells:
            rate, is_example = cell.price
            sums[model, cell.kind, rate, bool(is_example)] += cell.gpu_ms
    return sorted((_term(key, gpu_ms) for key, gpu_ms in sums.items()), key=_in_order)


def _term(key: _Key, gpu_ms: int) -> Term:
    model, kind, rate, is_example = key
    return Term(*kind, model, gpu_ms, rate, is_example, _usd(gpu_ms, rate))


def _in_order(term: Term) -> tuple[int, Decimal, int, str, str]:
    dearest_first = -(term.usd or Decimal(0))
    return (
        SHOWN_STATES.index(term.shown),
        dearest_first,
        -term.gpu_ms,
        term.tier,
        term.gpu_model,
    )


def _usd(gpu_ms: int, rate: Decimal | None) -> Decimal | None:
    return None if rate is None else pricing.price([(gpu_ms, rate)])
