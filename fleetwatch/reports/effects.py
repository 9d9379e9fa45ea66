"""Why a month cost more or less than the one before: volume, mix and rate effects that sum to the
difference. Pure.

The three are those of standard cost accounting (docs/reports.md has formula, source and an example
by hand): volume = more or fewer hours at the old average price; mix = the same hours, but more of
the dear or the cheap GPU models; rate = the same hours of the same models at a new price.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce

from fleetwatch.figures.pricing import EXACT, usd
from fleetwatch.figures.totals import ZERO


@dataclass(frozen=True, slots=True)
class Spent:
    """Priced GPU time of one GPU model and its dollars, unrounded."""

    gpu_ms: int
    cost_usd: Decimal


@dataclass(frozen=True, slots=True)
class Effects:
    """Micro-dollars that sum to exactly the difference they explain."""

    volume_usd: Decimal
    mix_usd: Decimal
    rate_usd: Decimal


def effects(
    before: Mapping[str, Spent], now: Mapping[str, Spent], *, difference_usd: Decimal
) -> Effects:
    """The difference of two periods by its reasons, from what each GPU model cost in both.

    A model that cost nothing to compare with before has no change of rate: what is new is mix;
    where there was nothing at all before, everything is volume. `difference_usd` is the difference
    as shown: what rounding leaves of it goes to the largest effect.
    """
    hours_before = _hours(before.values())
    hours_now = _hours(now.values())
    if not hours_before:
        return Effects(difference_usd, ZERO, ZERO)
    cost_before = _cost(before.values())
    cost_now = _cost(now.values())
    at_average = EXACT.divide(EXACT.multiply(cost_before, hours_now), hours_before)
    at_old_rate = (_at_old_rate(spent, before.get(model)) for model, spent in now.items())
    at_old_rates = reduce(EXACT.add, at_old_rate, ZERO)
    parts = [
        EXACT.subtract(at_average, cost_before),
        EXACT.subtract(at_old_rates, at_average),
        EXACT.subtract(cost_now, at_old_rates),
    ]
    return Effects(*fitted(parts, difference_usd))


def _at_old_rate(spent: Spent, old: Spent | None) -> Decimal:
    """What this time would have cost before; what it costs, where nothing tells."""
    if old is None or not old.gpu_ms:
        return spent.cost_usd
    return EXACT.divide(EXACT.multiply(old.cost_usd, Decimal(spent.gpu_ms)), Decimal(old.gpu_ms))


def fitted(parts: list[Decimal], total: Decimal) -> list[Decimal]:
    """The parts in micro-dollars that sum to `total`: what rounding leaves goes to the largest."""
    rounded = [usd(part) for part in parts]
    largest = max(range(len(parts)), key=lambda i: (abs(parts[i]), -i))
    rounded[largest] += total - sum(rounded, ZERO)
    return rounded


def _hours(every: Iterable[Spent]) -> Decimal:
    return Decimal(sum(spent.gpu_ms for spent in every))


def _cost(every: Iterable[Spent]) -> Decimal:
    return reduce(EXACT.add, (spent.cost_usd for spent in every), ZERO)
