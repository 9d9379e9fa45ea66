"""What the fleet costs at this moment, and what of it stands idle."""

from datetime import datetime
from decimal import Decimal
from typing import Any

from fleetwatch.figures import pricing
from fleetwatch.figures.totals import SpendingNow
from fleetwatch.ledger.policy import STATES
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from fleetwatch.lib.sql import execute, read_statement

IDLE_PLACE = STATES.index("idle") + 1  # the database counts from 1
# posting follows the agents by their flush and its own minute; a run that ended earlier is over
CURRENT_RUN_MS = 600_000

_SPENDING_NOW = read_statement("figures/sql/spending_now.sql")


def spending_now(now: datetime) -> SpendingNow:
    """Dollars per hour of every GPU that is not retired, and what of it is idle, by the runs of the
    last 10 minutes.
    """
    rows = _at_each_price(now)
    gpus, judged, unobserved, allocated, idle = (
        sum(row[place] for row in rows) for place in range(3, 8)
    )
    return SpendingNow(
        usd_per_hour=pricing.price((row[3] * HOUR_MS, row[0]) for row in rows),
        gpus=gpus,
        judged_gpus=judged,
        unobserved_gpus=unobserved,
        allocated_gpus=allocated,
        idle_gpus=idle,
        idle_usd_per_hour=pricing.price((row[2], row[0]) for row in rows),
        unpriced_gpus=sum(row[3] for row in rows if row[0] is None),
        has_example_rates=any(row[1] for row in rows),
    )


def idle_now(now: datetime) -> dict[int, Decimal | None]:
    """The GPUs that spending_now() counts as idle, by id: dollars per hour of what of each is; None
    where no rate holds.
    """
    return {
        gpu_id: None if row[0] is None else pricing.price([(idle_ms, row[0])])
        for row in _at_each_price(now)
        for gpu_id, idle_ms in zip(row[8] or (), row[9] or (), strict=True)
    }


def _at_each_price(now: datetime) -> list[tuple[Any, ...]]:
    since_ms = to_ms(now) - CURRENT_RUN_MS
    wanted = {"now": now, "now_ms": to_ms(now), "since_ms": since_ms, "idle": IDLE_PLACE}
    return execute(_SPENDING_NOW, wanted)
