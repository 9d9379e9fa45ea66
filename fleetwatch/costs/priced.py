"""Dollars of single rows of the ledger, for who wants to see how a figure comes about."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from fleetwatch.costs.models import GPURate
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
    told = list(rows)
    rates = _rates(told)
    return [_priced(row, rates[row.gpu_id]) for row in told]


def _rates(rows: Sequence[Row]) -> dict[int, list[GPURate]]:
    found: dict[int, list[GPURate]] = defaultdict(list)
    if rows:
        last = max(row.start for row in rows)
        for rate in GPURate.objects.select_related("rate").filter(
            gpu_id__in={row.gpu_id for row in rows}, valid_from__lte=last
        ):
            found[rate.gpu_id].append(rate)
    return found


def _priced(row: Row, rates: Sequence[GPURate]) -> Priced:
    holds = (
        rate
        for rate in rates
        if rate.valid_from <= row.start and (rate.valid_to is None or rate.valid_to > row.start)
    )
    rate = next(holds, None)
    return Priced(
        row, rate, None if rate is None else pricing.cost_usd([(row.gpu_ms, rate.usd_per_gpu_hour)])
    )
