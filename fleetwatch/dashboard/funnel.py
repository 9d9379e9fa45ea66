"""From what is paid for to what is useful, step by step. Pure."""

from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal

from fleetwatch.figures.pricing import exact_sum
from fleetwatch.figures.totals import ALLOCATED_STATES, Totals
from fleetwatch.ledger.policy import PARTS, STATES

OBSERVED = tuple(state for state in STATES if state != "unobserved")
AVAILABLE = tuple(state for state in OBSERVED if state != "unavailable")
USEFUL = ("useful",)
STEPS = (
    ("Capacity", "every GPU, all of the time", STATES),
    ("Observed", "an agent saw it", OBSERVED),
    ("Available", "it could work", AVAILABLE),
    ("Allocated", "a job held it", ALLOCATED_STATES),
    ("Active", "it worked", ("useful", "underused")),
    ("Useful", "at its full efficiency", USEFUL),
)


@dataclass(frozen=True, slots=True)
class Step:
    """What is left of the step before; `states` as an address names them, "" = all."""

    label: str
    meaning: str
    states: str
    gpu_ms: int
    cost_usd: Decimal
    width: str  # of the first one's time, as SVG wants it

    @property
    def narrowing(self) -> str:
        """Its states as a further parameter of an address; "" for all."""
        return f"&state={self.states}" if self.states else ""


def funnel(totals: Totals) -> list[Step]:
    """Capacity, what of it was observed, could work, was held by jobs, worked, was useful; [] of a
    period without GPU time.
    """
    return [_step(totals, *step) for step in STEPS] if totals.capacity_ms else []


def _step(totals: Totals, label: str, meaning: str, states: Collection[str]) -> Step:
    gpu_ms = sum(totals.states[state] for state in states)
    cost_usd = exact_sum(totals.cost_by_state[state] for state in states)
    if states == USEFUL:
        gpu_ms -= totals.busy_only_ms
        cost_usd -= totals.busy_only_usd
    parts = [part for part, whole in PARTS.items() if whole in states and states != USEFUL]
    named = "" if states == STATES else ",".join([*states, *parts])
    return Step(
        label, meaning, named, gpu_ms, cost_usd, f"{100 * gpu_ms / totals.capacity_ms:.2f}%"
    )
