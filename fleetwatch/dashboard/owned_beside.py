"""What an owned GPU-hour costs beside the other prices of the same GPU model."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from fleetwatch.costs.difference import closed_days
from fleetwatch.costs.rates import book
from fleetwatch.costs.rates.book import ModelPrice
from fleetwatch.costs.tco import Component, price
from fleetwatch.figures import pricing
from fleetwatch.figures.selectors import totals
from fleetwatch.figures.totals import Scope
from fleetwatch.finance.released import Contract, contracts
from fleetwatch.inventory.models import GPUModel
from fleetwatch.reports.printed import apportioned


@dataclass(frozen=True, slots=True)
class OwnedBeside:
    """Dollars per GPU-hour: `usd` owned, by its parts in cents; the rate in force from its least to
    its most (None: it has none), what contracts say, and what an hour that jobs used costs, by the
    share of available time that they did in the last 30 days (None: that is not known).
    """

    usd: Decimal
    parts: Sequence[tuple[Component, Decimal]]
    rate: ModelPrice | None
    contracts: Sequence[Contract]
    used_ratio: float | None

    @property
    def usd_per_used_hour(self) -> Decimal | None:
        return self.usd / Decimal(repr(self.used_ratio)) if self.used_ratio else None


def owned_beside(
    model: GPUModel | None, parts: Sequence[Component], now: datetime
) -> OwnedBeside | None:
    """None without parts."""
    if model is None or not parts:
        return None
    exact = [part.usd_per_gpu_hour for part in parts]
    cents = apportioned(exact, pricing.usd(price(parts), pricing.CENT))
    prices = {each.gpu_model_id: each for each in book.prices_of_models(now)}
    used = totals(closed_days(now), scope=Scope(gpu_model=model.name)).occupancy
    return OwnedBeside(
        usd=price(parts),
        parts=list(zip(parts, cents, strict=True)),
        rate=prices.get(model.pk),
        contracts=contracts(now).get(model.name, ()),
        used_ratio=used,
    )
