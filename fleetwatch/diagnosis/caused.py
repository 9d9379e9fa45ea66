"""What causes took, in GPU time and dollars: what selectors of diagnosis give back. Pure."""

from dataclasses import dataclass
from decimal import Decimal

from fleetwatch.costs.totals import HEADLINE_TIERS, Totals
from fleetwatch.ledger.policy import STATES, TIERS

ZERO = Decimal(0)
# column of a cause -> state and waste tier of the ledger
WASTE = {
    "idle_certain": ("idle", "certain"),
    "idle_probable": ("idle", "probable"),
    "stalled_probable": ("stalled", "probable"),
    "stalled_potential": ("stalled", "potential"),
    "underused": ("underused", "potential"),
}


@dataclass(frozen=True, slots=True)
class Saving:
    """What could have been recovered of a cause's time, from low to high; dollars divided once, not rounded."""

    low_ms: int
    high_ms: int
    low_usd: Decimal
    high_usd: Decimal

    def __add__(self, other: "Saving") -> "Saving":
        return Saving(
            self.low_ms + other.low_ms, self.high_ms + other.high_ms, self.low_usd + other.low_usd, self.high_usd + other.high_usd
        )

    @property
    def middle_usd(self) -> Decimal:
        """Of the interval: by this findings are ranked."""
        return (self.low_usd + self.high_usd) / 2


NO_SAVING = Saving(0, 0, ZERO, ZERO)


@dataclass(frozen=True, slots=True)
class Caused:
    """A cause's GPU time, of one job or of all. `held_ms` is what was affected; the columns of WASTE are what of it was wasted."""

    job_id: int | None
    cause: str
    confidence: int  # 0 to 3: the surest of its cells
    gpus: int
    held_ms: int
    held_usd: Decimal
    ms: dict[str, int]
    usd: dict[str, Decimal]
    saving: Saving
    unpriced_ms: int  # wasted time without a rate: in no dollar figure
    has_example_rates: bool

    @property
    def wasted_ms(self) -> int:
        """Idle, stalled and underused, whatever their tier."""
        return sum(self.ms.values())

    @property
    def wasted_usd(self) -> Decimal:
        return sum(self.usd.values(), ZERO)

    @property
    def tier_ms(self) -> dict[str, int]:
        """Wasted time by tier; certain and probable are the headline, potential stands apart."""
        return {tier: sum(self.ms[name] for name, label in WASTE.items() if label[1] == tier) for tier in TIERS}

    @property
    def tier_usd(self) -> dict[str, Decimal]:
        return {tier: sum((self.usd[name] for name, label in WASTE.items() if label[1] == tier), ZERO) for tier in TIERS}

    @property
    def headline_usd(self) -> Decimal:
        return sum((self.tier_usd[tier] for tier in HEADLINE_TIERS), ZERO)

    @property
    def totals(self) -> Totals:
        """As a line of a breakdown of idle, stalled and underused time."""
        by_state = {state: [name for name, label in WASTE.items() if label[0] == state] for state in STATES}
        return Totals(
            capacity_ms=self.wasted_ms,
            states={state: sum(self.ms[name] for name in names) for state, names in by_state.items()},
            cost_usd=self.wasted_usd,
            cost_by_state={state: sum((self.usd[name] for name in names), ZERO) for state, names in by_state.items()},
            waste_ms=self.tier_ms,
            waste_usd=self.tier_usd,
            unpriced_ms=self.unpriced_ms,
            has_example_rates=self.has_example_rates,
            energy_j=None,
        )


def rest(whole: Totals, parts: list[Totals]) -> Totals:
    """What of the whole no part has. Its dollars are what is left, so that all lines sum to the whole."""
    return Totals(
        capacity_ms=whole.capacity_ms - sum(part.capacity_ms for part in parts),
        states={state: ms - sum(part.states[state] for part in parts) for state, ms in whole.states.items()},
        cost_usd=whole.cost_usd - sum((part.cost_usd for part in parts), ZERO),
        cost_by_state={state: usd - sum((part.cost_by_state[state] for part in parts), ZERO) for state, usd in whole.cost_by_state.items()},
        waste_ms={tier: ms - sum(part.waste_ms[tier] for part in parts) for tier, ms in whole.waste_ms.items()},
        waste_usd={tier: usd - sum((part.waste_usd[tier] for part in parts), ZERO) for tier, usd in whole.waste_usd.items()},
        unpriced_ms=whole.unpriced_ms - sum(part.unpriced_ms for part in parts),
        has_example_rates=whole.has_example_rates,
        energy_j=None,
    )
