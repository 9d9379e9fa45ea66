"""Why a month cost more or less than the one before: volume, mix and rate effects that sum to the
difference. Pure.

The three are those of standard cost accounting (docs/reports.md has formula, source and an example
by hand): volume = more or fewer hours at the old average price; mix = the same hours, but more of
the dear or the cheap GPU models; rate = the same hours of the same models at a new price.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, localcontext

from fleetwatch.figures.pricing import EXACT, exact_sum, usd
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
    ms_before = sum(spent.gpu_ms for spent in before.values())
    ms_now = sum(spent.gpu_ms for spent in now.values())
    if not ms_before:
        return Effects(difference_usd, ZERO, ZERO)
    cost_before = exact_sum(spent.cost_usd for spent in before.values())
    cost_now = exact_sum(spent.cost_usd for spent in now.values())
    at_average = at_its_price(cost_before, ms_before, ms_now)
    at_old_rates = exact_sum(_at_old_rate(spent, before.get(model)) for model, spent in now.items())
    with localcontext(EXACT):
        parts = [at_average - cost_before, at_old_rates - at_average, cost_now - at_old_rates]
    return Effects(*fitted(parts, difference_usd))


def _at_old_rate(spent: Spent, old: Spent | None) -> Decimal:
    """What this time would have cost before; what it costs, where nothing tells."""
    if old is None or not old.gpu_ms:
        return spent.cost_usd
    return at_its_price(old.cost_usd, old.gpu_ms, spent.gpu_ms)


def at_its_price(dollars: Decimal, of_ms: int, gpu_ms: int | Decimal) -> Decimal:
    """What so much time costs where `of_ms` cost `dollars`, unrounded; nothing of nothing."""
    if not of_ms:
        return ZERO
    with localcontext(EXACT):
        return dollars * gpu_ms / of_ms


def fitted(parts: list[Decimal], total: Decimal) -> list[Decimal]:
    """The parts in micro-dollars that sum to `total`: what rounding leaves goes to the largest."""
    rounded = [usd(part) for part in parts]
    largest = max(range(len(parts)), key=lambda i: (abs(parts[i]), -i))
    rounded[largest] += total - sum(rounded, ZERO)
    return rounded
