"""What GPUs cost while something is wrong with them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal

from fleetwatch.costs.rates.rates_in_force import RatesInForce
from fleetwatch.figures import pricing
from fleetwatch.lib.intervals import from_ms

# [start_ms, end_ms), and the milliseconds of the GPU that are meant
Part = tuple[int, int, int]


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


def cost_of_parts(gpu_id: int, parts: Sequence[Part], rates: RatesInForce) -> Cost:
    """Of these parts of a GPU's time; nothing is known of none."""
    if not parts:
        return Cost(None, None, has_example_rates=False)
    start_ms, end_ms, gpu_ms = parts[-1]
    rate = rates.at(gpu_id, from_ms(end_ms - 1))
    share = Decimal(gpu_ms) / (end_ms - start_ms)
    return Cost(
        None if rate is None else pricing.usd(rate.usd_per_gpu_hour * share),
        _sum([rates.usd(gpu_id, *part) for part in parts]),
        has_example_rates=rate is not None and rate.is_example,
    )


def _sum(amounts: Collection[Decimal | None]) -> Decimal | None:
    priced = [amount for amount in amounts if amount is not None]
    return pricing.usd(sum(priced, Decimal(0))) if len(priced) == len(amounts) else None
