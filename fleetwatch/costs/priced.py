"""Dollars of single rows of the ledger, for who wants to see how a figure comes about."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from fleetwatch.costs.models import GPURate
from fleetwatch.costs.rates.rates_in_force import RatesInForce
from fleetwatch.figures import pricing
from fleetwatch.ledger.models import Adjustment, Entry

Row = Entry | Adjustment


@dataclass(frozen=True, slots=True)
class Priced:
    """A row, the rate that held at its cut and its dollars; None = no rate held."""

    row: Row
    rate: GPURate | None
    usd: Decimal | None


def priced(rows: Iterable[Row]) -> list[Priced]:
    """Each row with its dollars, not rounded: they sum to the figures of costs."""
    wanted = list(rows)
    rates = RatesInForce(row.gpu_id for row in wanted)
    lines = []
    for row in wanted:
        rate = rates.at(row.gpu_id, row.start)
        usd = None if rate is None else pricing.price([(row.gpu_ms, rate.usd_per_gpu_hour)])
        lines.append(Priced(row, rate, usd))
    return lines
