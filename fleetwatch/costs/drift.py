"""Whether dollars and GPU time leak between lines: what each breakdown sums to, beside the fleet's
total.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from fleetwatch.figures.selectors import GROUPS, totals, totals_by
from fleetwatch.lib.intervals import Interval

MICRO_DOLLAR = Decimal("0.000001")


@dataclass(frozen=True, slots=True)
class Drift:
    """What the lines of a breakdown have more than the fleet; one of both is not 0."""

    group_by: str
    gpu_ms: int
    usd: Decimal


def drifts(interval: Interval) -> Iterator[Drift]:
    """The breakdowns whose lines, those of nobody included, are not the fleet's: milliseconds
    exactly, dollars to the micro-dollar.
    """
    fleet = totals(interval)
    for group_by in GROUPS:
        lines = [group.totals for group in totals_by(interval, group_by)]
        gpu_ms = sum(line.capacity_ms for line in lines) - fleet.capacity_ms
        usd = sum((line.cost_usd for line in lines), Decimal(0)) - fleet.cost_usd
        if gpu_ms or abs(usd) >= MICRO_DOLLAR:
            yield Drift(group_by, gpu_ms, usd)
