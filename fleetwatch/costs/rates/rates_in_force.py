"""Reads which rate held for a GPU at a moment: for who prices single spans by hand (a row of the
ledger, an incident, a tried policy). Sums of a period are engine.read()'s.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal

from fleetwatch.costs.models import GPURate
from fleetwatch.figures import pricing
from fleetwatch.lib.intervals import to_ms

# from when to when (None: it goes on), and dollars per GPU-hour
_Span = tuple[int, int | None, Decimal]


class RatesInForce:
    """Every rate of some GPUs."""

    def __init__(self, gpu_ids: Iterable[int]) -> None:
        self._rates: dict[int, list[GPURate]] = defaultdict(list)
        self._spans: dict[int, list[_Span]] = defaultdict(list)
        rates = GPURate.objects.select_related("rate").filter(gpu_id__in=set(gpu_ids))
        for rate in rates.order_by("gpu_id", "valid_from"):
            self._rates[rate.gpu_id].append(rate)
            until_ms = None if rate.valid_to is None else to_ms(rate.valid_to)
            span = (to_ms(rate.valid_from), until_ms, rate.usd_per_gpu_hour)
            self._spans[rate.gpu_id].append(span)

    def at(self, gpu_id: int, moment: datetime) -> GPURate | None:
        """None where no rate held."""
        rates = self._rates.get(gpu_id, [])
        place = bisect_right(rates, moment, key=lambda rate: rate.valid_from) - 1
        if place < 0:
            return None
        rate = rates[place]
        return rate if rate.valid_to is None or rate.valid_to > moment else None

    def usd(self, gpu_id: int, start_ms: int, end_ms: int, gpu_ms: int) -> Decimal | None:
        """Dollars of the GPU's time (a holder's share of it), spread evenly from start to end; None
        where no rate held.
        """
        parts = []
        for since_ms, until_ms, usd_per_hour in self._spans.get(gpu_id, ()):
            start = max(start_ms, since_ms)
            end = end_ms if until_ms is None else min(end_ms, until_ms)
            if start < end:
                part_ms = gpu_ms * (end - start) // (end_ms - start_ms)
                parts.append((part_ms, usd_per_hour))
        return pricing.price(parts) if parts else None
