"""What GPUs cost by contract instead of at the rates, over a period."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from fleetwatch.accounts.visibility import narrowed
from fleetwatch.dashboard.period import Period
from fleetwatch.figures.pricing import exact_sum
from fleetwatch.finance.commitments import coverage
from fleetwatch.finance.coverage import missing_usd
from fleetwatch.lib.intervals import Interval


@dataclass(frozen=True, slots=True)
class ContractCosts:
    """`differs_usd`: what committed GPUs that were there cost by contract, less what they cost at
    the rates; `missing_usd` was paid for those that were not, and is in no ledger. Of `interval`
    (None: nothing was committed).
    """

    interval: Interval | None
    rates_usd: Decimal
    differs_usd: Decimal
    missing_usd: Decimal

    @property
    def usd(self) -> Decimal:
        return self.rates_usd + self.differs_usd


def may_be_asked(filters: Mapping[str, str]) -> bool:
    """Contracts are of the whole fleet's GPUs, of one model or all."""
    return narrowed() is None and not filters.keys() - {"gpu_model"}


def contract_costs(period: Period, filters: Mapping[str, str], rates_usd: Decimal) -> ContractCosts:
    """Of all GPUs, or of the model that the filters name, which cost `rates_usd` at the rates."""
    covered = coverage(period.so_far, now=period.now)
    model = filters.get("gpu_model")
    lines = [line for each, line in covered.lines if model in (None, each.gpu_model.name)]
    return ContractCosts(
        covered.interval if lines else None,
        rates_usd,
        exact_sum(line.rate_book_differs_usd for line in lines),
        missing_usd(lines),
    )
