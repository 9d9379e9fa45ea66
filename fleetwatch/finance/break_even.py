"""From which use on a commitment is cheaper than paying on demand for what jobs held alone."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db.models import Min, Q

from fleetwatch.costs.models import Commitment, Rate
from fleetwatch.costs.rates.exchange import USD
from fleetwatch.finance.coverage import Covered
from fleetwatch.lib.intervals import HOUR_MS

ON_DEMAND = "on_demand"


@dataclass(frozen=True, slots=True)
class CommitmentUse:
    """A commitment over a period beside the on-demand rate of its model; None = there is no such
    rate in dollars.
    """

    commitment: Commitment
    covered: Covered
    on_demand_usd: Decimal | None  # per GPU-hour

    @property
    def committed_usd_per_gpu_hour(self) -> Decimal | None:
        """None where nothing was committed."""
        gpu_ms = self.covered.committed_ms
        return self.covered.committed_usd * HOUR_MS / gpu_ms if gpu_ms else None

    @property
    def break_even(self) -> float | None:
        """The share of committed time that jobs have to hold for it to be no dearer than on demand;
        above 1: it never is. None without a rate on demand.
        """
        committed_usd = self.committed_usd_per_gpu_hour
        if committed_usd is None or not self.on_demand_usd:
            return None
        return float(committed_usd / self.on_demand_usd)

    @property
    def is_worth_it(self) -> bool | None:
        """Whether jobs held as much; None where it can't be said."""
        used = self.covered.utilisation
        even = self.break_even
        return None if used is None or even is None else used >= even


def uses(lines: Collection[tuple[Commitment, Covered]], at: datetime) -> list[CommitmentUse]:
    """Of each commitment, beside what holds on demand at that moment: the model's least rate, or
    its least shipped list price, which is on demand, where there is no such rate.
    """
    holds = Q(valid_to=None) | Q(valid_to__gt=at)
    is_on_demand = Q(pricing_class=ON_DEMAND) | Q(node_class=ON_DEMAND)
    rates = Rate.objects.filter(
        holds,
        is_on_demand | Q(is_example=True),
        valid_from__lte=at,
        currency=USD,
        gpu_model__in={commitment.gpu_model_id for commitment, _ in lines},
    )
    by_model = rates.values_list("gpu_model_id").annotate(Min("price_per_gpu_hour")).order_by()
    least = dict(by_model.filter(is_example=True)) | dict(by_model.filter(is_example=False))
    return [
        CommitmentUse(commitment, covered, least.get(commitment.gpu_model_id))
        for commitment, covered in lines
    ]
