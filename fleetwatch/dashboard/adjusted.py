"""What was learned of a closed month since it was closed: its figures stay, adjustments stand
beside them.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from fleetwatch.accounts.selectors import zone
from fleetwatch.accounts.visibility import narrowed
from fleetwatch.costs.priced import priced
from fleetwatch.figures.edges import split
from fleetwatch.figures.totals import HEADLINE_TIERS
from fleetwatch.ledger.models import Adjustment, ClosedMonth
from fleetwatch.lib.intervals import Interval


@dataclass(frozen=True, slots=True)
class Adjusted:
    """Dollars of a period as its months were closed, and what adjustments of its hours add to them,
    by cause, most dollars first, and to what of them was wasted.
    """

    months: list[ClosedMonth]
    closed_usd: Decimal
    causes: list[tuple[str, Decimal]]
    wasted_change_usd: Decimal

    @property
    def change_usd(self) -> Decimal:
        return sum((usd for _, usd in self.causes), Decimal(0))

    @property
    def together_usd(self) -> Decimal:
        return self.closed_usd + self.change_usd

    def of_ledger(self, ledger_usd: Decimal) -> "Adjusted":
        """The same of a figure that has the adjustments in it."""
        return replace(self, closed_usd=ledger_usd - self.change_usd)


def adjusted(interval: Interval, cost_usd: Decimal) -> Adjusted | None:
    """None where nothing was learned since of closed hours in the period, or none of it was closed;
    and to a reader who does not see everything, for adjustments are the fleet's.

    Of an hour that lies in the period in part, its adjustments count in that proportion.
    """
    closed = ClosedMonth.objects.filter(start__lt=interval.end, end__gt=interval.start)
    months = [] if narrowed() else list(closed.order_by("start"))
    if not months:
        return None
    by_cause: dict[str, Decimal] = defaultdict(Decimal)
    wasted_usd = Decimal(0)
    for adjustment, usd in _booked(interval):
        by_cause[adjustment.cause] += usd
        if adjustment.tier in HEADLINE_TIERS:
            wasted_usd += usd
    causes = sorted(by_cause.items(), key=lambda each: (-abs(each[1]), each[0]))
    return Adjusted(months, cost_usd, causes, wasted_usd) if causes else None


def _booked(interval: Interval) -> Iterator[tuple[Any, Decimal]]:
    """The adjustments of its hours, each with its dollars in the period."""
    whole, edges = split(interval, zone())
    parts = [(edge.cut, Decimal(edge.part.duration_ms) / edge.cut.duration_ms) for edge in edges]
    if whole is not None:
        parts.append((whole, Decimal(1)))
    for part, share in parts:
        for line in priced(Adjustment.objects.filter(start__gte=part.start, start__lt=part.end)):
            yield line.row, share * (line.usd or Decimal(0))
