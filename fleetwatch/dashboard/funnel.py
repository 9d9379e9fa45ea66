"""From what is paid for to what is useful, step by step. Pure."""

from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal

from fleetwatch.figures.pricing import exact_sum
from fleetwatch.figures.totals import ALLOCATED_STATES, Totals
from fleetwatch.ledger.policy import STATES

OBSERVED = tuple(state for state in STATES if state != "unobserved")
AVAILABLE = tuple(state for state in OBSERVED if state != "unavailable")
WORKING = ("useful", "underused")


@dataclass(frozen=True, slots=True)
class Step:
    """What is left of the step before."""

    label: str
    meaning: str
    gpu_ms: int
    cost_usd: Decimal
    width: str  # of the first one's time, as SVG wants it


def funnel(totals: Totals) -> list[Step]:
    """Capacity, what of it was observed, could work, was held by jobs, worked, was useful; [] of a
    period without GPU time.
    """
    if not totals.capacity_ms:
        return []
    useful_ms = totals.states["useful"] - totals.busy_only_ms
    useful_usd = totals.cost_by_state["useful"] - totals.busy_only_usd
    steps = (
        ("Capacity", "every GPU, all of the time", *_of(totals, STATES)),
        ("Observed", "an agent saw it", *_of(totals, OBSERVED)),
        ("Available", "it could work", *_of(totals, AVAILABLE)),
        ("Allocated", "a job held it", *_of(totals, ALLOCATED_STATES)),
        ("Active", "it worked", *_of(totals, WORKING)),
        ("Useful", "at its full efficiency", useful_ms, useful_usd),
    )
    return [Step(*step, f"{100 * step[2] / totals.capacity_ms:.2f}%") for step in steps]


def _of(totals: Totals, states: Collection[str]) -> tuple[int, Decimal]:
    """Time and dollars of these states together."""
    gpu_ms = sum(totals.states[state] for state in states)
    return gpu_ms, exact_sum(totals.cost_by_state[state] for state in states)
