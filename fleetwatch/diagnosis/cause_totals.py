"""What causes took, in GPU time and dollars: what selectors of diagnosis give back. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from typing import Any

from fleetwatch.figures import pricing, totals
from fleetwatch.figures.totals import ZERO, Totals
from fleetwatch.ledger.policy import STATES, TIERS

# column of a cause -> state and waste tier of the ledger
WASTE = {
    "idle_certain": ("idle", "certain"),
    "idle_probable": ("idle", "probable"),
    "stalled_probable": ("stalled", "probable"),
    "stalled_potential": ("stalled", "potential"),
    "underused": ("underused", "potential"),
}
# what is counted of a cause's time, in this order
FIGURES = ("held", *WASTE, "low", "high")
HELD = 0
WASTED = slice(1, 1 + len(WASTE))
LOW = FIGURES.index("low")
HIGH = FIGURES.index("high")
_WAITING = FIGURES.index("stalled_potential")


@dataclass(frozen=True, slots=True)
class Saving:
    """What could have been recovered of a cause's time, from low to high; dollars divided once, not
    rounded.
    """

    low_ms: int
    high_ms: int
    low_usd: Decimal
    high_usd: Decimal


NO_SAVING = Saving(0, 0, ZERO, ZERO)


@dataclass(frozen=True, slots=True)
class Caused:
    """A cause's GPU time, of one job or of all: what was affected (held), what of it was wasted,
    and what could have been saved.

    Dollars stand as milliseconds x dollars per GPU-hour and are divided when they are asked for: a
    month has many rows, a page few.
    """

    job_id: int | None
    cause: str
    confidence: int  # 0 to 3: the surest of its cells
    ms: Sequence[int]  # by FIGURES
    usd_ms: Sequence[Decimal]  # by FIGURES
    unpriced_ms: int = 0  # wasted time without a rate: in no dollar figure
    has_example_rates: bool = False

    @property
    def held_ms(self) -> int:
        return self.ms[HELD]

    @property
    def saving(self) -> Saving:
        low_usd, high_usd = (pricing.divided(self.usd_ms[figure]) for figure in (LOW, HIGH))
        return Saving(self.ms[LOW], self.ms[HIGH], low_usd, high_usd)

    @property
    def order(self) -> tuple[Decimal, int, int]:
        """Findings are ranked by it, ascending: most that could be saved first (the middle of it,
        twice, in dollars x milliseconds), then most time.
        """
        return -(self.usd_ms[LOW] + self.usd_ms[HIGH]), -self.ms[HIGH], -self.held_ms

    @property
    def wasted_ms(self) -> int:
        """Idle, stalled and underused, whatever their tier."""
        return sum(self.ms[WASTED])

    def wasted_in(self, state: str) -> bool:
        """Whether any of it was wasted in that state of the ledger."""
        return bool(_wasted(self.ms, state))

    @property
    def wasted_usd(self) -> Decimal:
        return pricing.divided(sum(self.usd_ms[WASTED], ZERO))

    @property
    def headline_usd_ms(self) -> Decimal:
        """What of it a headline counts as wasted, in dollars x milliseconds, exactly."""
        return sum((_wasted(self.usd_ms, tier) for tier in totals.HEADLINE_TIERS), ZERO)

    @property
    def held_usd(self) -> Decimal:
        """All of the affected time, wasted or not."""
        return pricing.divided(self.usd_ms[HELD])

    @property
    def tier_ms(self) -> dict[str, int]:
        """Wasted time by tier; certain and probable are the headline, potential stands apart."""
        return {tier: _wasted(self.ms, tier) for tier in TIERS}

    @property
    def tier_usd(self) -> dict[str, Decimal]:
        return {tier: pricing.divided(_wasted(self.usd_ms, tier)) for tier in TIERS}

    @property
    def totals(self) -> Totals:
        """As a line of a breakdown of idle, stalled and underused time."""
        return Totals(
            capacity_ms=self.wasted_ms,
            states={state: _wasted(self.ms, state) for state in STATES},
            cost_usd=self.wasted_usd,
            cost_by_state={state: pricing.divided(_wasted(self.usd_ms, state)) for state in STATES},
            waste_ms=self.tier_ms,
            waste_usd=self.tier_usd,
            unpriced_ms=self.unpriced_ms,
            has_example_rates=self.has_example_rates,
            energy_j=None,
            waiting_ms=self.ms[_WAITING],
            waiting_usd=pricing.divided(self.usd_ms[_WAITING]),
        )


def _wasted(amounts: Sequence[Any], label: str) -> Any:
    """Of amounts by FIGURES what was wasted of that state, or tier."""
    wasted = zip(amounts[WASTED], WASTE.values(), strict=True)
    return sum(amount for amount, labels in wasted if label in labels)


def nothing(job_id: int | None, cause: str) -> Caused:
    """A cause without any time."""
    return Caused(job_id, cause, 0, [0] * len(FIGURES), [ZERO] * len(FIGURES))


def total(several: Iterable[Caused]) -> Caused:
    """All of them as one, of no job and cause; each is of its own time, so that no more is saved of
    it than was wasted.
    """
    each = [nothing(None, ""), *several]
    with localcontext(pricing.EXACT):
        return replace(
            each[0],
            confidence=max(caused.confidence for caused in each),
            ms=[sum(figure) for figure in zip(*(caused.ms for caused in each), strict=True)],
            usd_ms=[
                sum(figure) for figure in zip(*(caused.usd_ms for caused in each), strict=True)
            ],
            unpriced_ms=sum(caused.unpriced_ms for caused in each),
            has_example_rates=any(caused.has_example_rates for caused in each),
        )


def together(several: Iterable[Saving]) -> Saving:
    """The sum of savings of different time."""
    every = [NO_SAVING, *several]
    return Saving(
        sum(saving.low_ms for saving in every),
        sum(saving.high_ms for saving in every),
        sum((saving.low_usd for saving in every), ZERO),
        sum((saving.high_usd for saving in every), ZERO),
    )


def rest(whole: Totals, parts: Sequence[Totals]) -> Totals:
    """What of the whole no part has.

    Its dollars are what is left, so that all lines sum to the whole.
    """
    explained = totals.together(parts)
    left = {name: _less(getattr(whole, name), getattr(explained, name)) for name in _PARTED}
    return replace(whole, **left, energy_j=None, energy_ms=0)


def _less(amount: Any, part: Any) -> Any:
    """What is left of the amount, or of amounts by key."""
    if isinstance(amount, dict):
        return {key: value - part[key] for key, value in amount.items()}
    return amount - part


# of Totals what lines are parts of
_PARTED = (
    "capacity_ms", "cost_usd", "unpriced_ms", "busy_only_ms", "busy_only_usd", "waiting_ms",
    "waiting_usd", "states", "cost_by_state", "waste_ms", "waste_usd",
)  # fmt: skip
