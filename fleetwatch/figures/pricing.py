"""Money, pure: dollars of GPU time, one way to round, lines that sum to their total."""

from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from functools import reduce

from fleetwatch.lib.intervals import HOUR_MS

MICRO_USD = Decimal("0.000001")
CENT = Decimal("0.01")

# 50 digits: products of milliseconds and rates are exact, and what the one division cuts off is far
# below a micro-dollar
EXACT = Context(prec=50, rounding=ROUND_HALF_EVEN)


def price(parts: Iterable[tuple[int | Decimal, Decimal | None]]) -> Decimal:
    """Dollars of (GPU-milliseconds, dollars per GPU-hour) parts: summed exactly, divided once, not
    rounded. Time without a rate is in no dollar figure.
    """
    return divided(exact_sum(usd_ms(gpu_ms, rate) for gpu_ms, rate in parts))


def usd_ms(gpu_ms: int | Decimal, usd_per_gpu_hour: Decimal | None) -> Decimal:
    """GPU-milliseconds x dollars per GPU-hour, exactly; 0 where no rate held. Sums of it are
    divided() once.
    """
    if usd_per_gpu_hour is None:
        return Decimal(0)
    return EXACT.multiply(Decimal(gpu_ms), usd_per_gpu_hour)


def divided(total: Decimal) -> Decimal:
    """Dollars of a sum of usd_ms(): the one division, not rounded."""
    return EXACT.divide(total, Decimal(HOUR_MS)) if total else Decimal(0)


def usd(amount: Decimal, step: Decimal = MICRO_USD) -> Decimal:
    """The amount as shown: rounded half to even to `step` (a micro-dollar; CENT for statements)."""
    return amount.quantize(step, context=EXACT)


def lines(
    amounts: Sequence[Decimal], step: Decimal = MICRO_USD, *, total: Decimal | None = None
) -> list[Decimal]:
    """The amounts in whole steps that sum to exactly `total`: largest remainder first.

    Without a total it is usd(sum(amounts), step); a given one is that sum rounded up or down.
    Each line is its amount rounded down or up; equal remainders go to the earlier line.
    """
    whole = usd(exact_sum(amounts), step) if total is None else total
    floors = [amount.quantize(step, rounding=ROUND_FLOOR, context=EXACT) for amount in amounts]
    missing = int((whole - exact_sum(floors)) / step)
    by_remainder = sorted(range(len(amounts)), key=lambda i: (floors[i] - amounts[i], i))
    for i in by_remainder[:missing]:
        floors[i] += step
    return floors


def can_sum_to(total: Decimal, amounts: Sequence[Decimal], step: Decimal) -> bool:
    """Whether that is a sum of the amounts, each rounded down or up."""
    down, up = (
        exact_sum(each.quantize(step, rounding=rounding, context=EXACT) for each in amounts)
        for rounding in (ROUND_FLOOR, ROUND_CEILING)
    )
    return down <= total <= up


def exact_sum(amounts: Iterable[Decimal]) -> Decimal:
    """The sum, of which no digit is cut off."""
    return reduce(EXACT.add, amounts, Decimal(0))


def sum_if_all_known(amounts: Iterable[Decimal | None]) -> Decimal | None:
    """The exact sum; None where one of the amounts is not known."""
    dollars = list(amounts)
    priced = [usd for usd in dollars if usd is not None]
    return exact_sum(priced) if len(priced) == len(dollars) else None
