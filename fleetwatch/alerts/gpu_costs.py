"""What GPUs cost while something is wrong with them."""

from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal

from fleetwatch.costs.rates.rates_in_force import RatesInForce
from fleetwatch.figures import pricing
from fleetwatch.lib.intervals import from_ms


@dataclass(frozen=True, slots=True)
class Cost:
    """Dollars an hour at the end of a time, and of all of it; None where a GPU has no rate."""

    usd_per_hour: Decimal | None
    usd: Decimal | None
    has_example_rates: bool


def cost_of(gpu_ids: Collection[int], rates: RatesInForce, start_ms: int, end_ms: int) -> Cost:
    """Of whole GPUs over [start_ms, end_ms)."""
    latest = [rates.at(gpu_id, from_ms(end_ms - 1)) for gpu_id in gpu_ids]
    spent = [rates.usd(gpu_id, start_ms, end_ms, end_ms - start_ms) for gpu_id in gpu_ids]
    return Cost(
        _sum([rate.usd_per_gpu_hour if rate else None for rate in latest]),
        _sum(spent),
        any(rate is not None and rate.is_example for rate in latest),
    )


def _sum(amounts: Collection[Decimal | None]) -> Decimal | None:
    priced = [amount for amount in amounts if amount is not None]
    return pricing.usd(sum(priced, Decimal(0))) if len(priced) == len(amounts) else None
