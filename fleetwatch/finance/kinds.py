"""GPU time by kind of GPU (model, pool, class, region) and cut of the ledger: what commitments and
invoices are laid beside.
"""

from dataclasses import dataclass
from decimal import Decimal

from fleetwatch.accounts.selectors import zone
from fleetwatch.figures import boundaries
from fleetwatch.figures.totals import NOBODY
from fleetwatch.finance.coverage import Kind
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.sql import execute, read_statement

_TIME = read_statement("finance/sql/time_of_kinds.sql")


@dataclass(frozen=True, slots=True)
class KindTime:
    """GPU time of one kind at one rate (None = no rate held), by cut: arrays of one length, in
    order.
    """

    kind: Kind
    usd_per_gpu_hour: Decimal | None
    cuts_ms: list[int]  # where each cut begins, milliseconds since the epoch
    capacity_ms: list[int]
    held_ms: list[int]
    unobserved_ms: list[int]


def time_of_kinds(interval: Interval, *, gpu_model_ids: list[int] | None = None) -> list[KindTime]:
    """All time in the interval, whose ends are cuts; of these models, or (None) of all, with NOBODY
    for an unknown one.
    """
    days = boundaries.days(interval, zone())
    wanted = {
        "start": interval.start,
        "end": interval.end,
        "day_starts": [day.start for day in days],
        "day_ends": [day.end for day in days],
        "gpu_model_ids": gpu_model_ids,
    }
    return [
        KindTime(Kind(model or NOBODY, pool, node_class, region), *figures)
        for model, pool, node_class, region, *figures in execute(_TIME, wanted)
    ]
