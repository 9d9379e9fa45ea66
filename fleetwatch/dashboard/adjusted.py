"""What was learned of a closed month since it was closed: its figures stay, adjustments stand beside them."""

from collections import defaultdict
from dataclasses import dataclass, replace
from decimal import Decimal

from fleetwatch.costs.priced import priced
from fleetwatch.ledger.models import Adjustment, ClosedMonth
from fleetwatch.lib.intervals import Interval


@dataclass(frozen=True, slots=True)
class Adjusted:
    """Dollars of a period as its months were closed, and what adjustments of its hours add to them, by cause, most dollars first."""

    months: list[ClosedMonth]
    closed_usd: Decimal
    causes: list[tuple[str, Decimal]]

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
    """None where nothing was learned since of closed hours in the period, or none of it was closed."""
    months = list(ClosedMonth.objects.filter(start__lt=interval.end, end__gt=interval.start).order_by("start"))
    if not months:
        return None
    rows = Adjustment.objects.filter(start__gte=interval.start, start__lt=interval.end)
    by_cause: dict[str, Decimal] = defaultdict(Decimal)
    for line in priced(rows):
        by_cause[line.row.cause] += line.usd or Decimal(0)  # type: ignore[union-attr]
    causes = sorted(by_cause.items(), key=lambda each: (-abs(each[1]), each[0]))
    return Adjusted(months, cost_usd, causes) if causes else None
