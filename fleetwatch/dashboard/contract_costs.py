"""What GPUs cost by contract instead of at the rates, over a period."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from fleetwatch.accounts.visibility import narrowed
from fleetwatch.dashboard.period import Period
from fleetwatch.figures.pricing import exact_sum
from fleetwatch.finance.commitments import coverage
from fleetwatch.finance.coverage import missing_usd


@dataclass(frozen=True, slots=True)
class ContractCosts:
    """`usd`: committed GPUs that were there at their contract's price, all others at the rates;
    `missing_usd` was paid for committed ones that were not there, and is in no ledger.
    """

    usd: Decimal
    missing_usd: Decimal


def contract_costs(
    period: Period, filters: Mapping[str, str], rates_usd: Decimal
) -> ContractCosts | None:
    """Of all GPUs, or of the model that the filters name, which cost `rates_usd` at the rates.

    None: nothing was committed of them, or what is asked for is less than the fleet's, whose the
    contracts are.
    """
    if narrowed() is not None or filters.keys() - {"gpu_model"}:
        return None
    model = filters.get("gpu_model")
    covered = coverage(period.so_far, now=period.now)
    lines = [line for each, line in covered.lines if model in (None, each.gpu_model.name)]
    if not lines:
        return None
    differs_usd = exact_sum(line.rate_book_differs_usd for line in lines)
    return ContractCosts(rates_usd + differs_usd, missing_usd(lines))
