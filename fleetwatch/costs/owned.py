"""Reads for the calculator: what the GPUs of a model draw, by their joule counters."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from fleetwatch.costs.difference import closed_days
from fleetwatch.figures.selectors import Scope, totals


@dataclass(frozen=True, slots=True)
class Draw:
    """Mean watts of a GPU over the last 30 days that are over, and the share of their time in which
    energy was read.
    """

    mean_w: Decimal
    coverage: float


def measured_draw(gpu_model: str, now: datetime) -> Draw | None:
    """None where nobody read joules."""
    drawn = totals(closed_days(now), scope=Scope(gpu_model=gpu_model))
    if drawn.mean_w is None or drawn.energy_coverage is None:
        return None
    return Draw(Decimal(repr(drawn.mean_w)).quantize(Decimal("0.1")), drawn.energy_coverage)
