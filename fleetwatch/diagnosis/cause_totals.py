"""What causes took, in GPU time and dollars: what selectors of diagnosis give back. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeVar

from fleetwatch.figures import pricing
from fleetwatch.figures.totals import Totals
from fleetwatch.ledger.policy import STATES, TIERS

ZERO = Decimal(0)
Value = TypeVar("Value", int, Decimal)
# column of a cause -> state and waste tier of the ledger
WASTE = {
    "idle_certain": ("idle", "certain"),
    "idle_probable": ("idle", "probable"),
    "stalled_probable": ("stalled", "probable"),
    "stalled_potential": ("stalled", "potential"),
    "underused": ("underused", "potential"),
}
_WAITING = list(WASTE).index("stalled_potential")


@dataclass(frozen=True, slots=True)
class Saving:
    """What could have been recovered of a cause's time, from low to high; dollars divided once, not
    rounded.
    """

    low_ms: int
    high_ms: int
    low_usd: Decimal
    high_usd: Decimal


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
    held_ms: int
    ms: Sequence[int]  # by WASTE
    low_ms: int
    high_ms: int
    held_usd_ms: Decimal
    usd_ms: Sequence[Decimal]  # by WASTE
    low_usd_ms: Decimal
    high_usd_ms: Decimal
    unpriced_ms: int  # wasted time without a rate: in no dollar figure
    has_example_rates: bool

    @property
    def saving(self) -> Saving:
        return total([self])

    @property
    def worth(self) -> Decimal:
        """The middle of what could be saved, twice, in dollars x milliseconds: by this findings are
        ranked.
        """
        return self.low_usd_ms + self.high_usd_ms

    @property
    def wasted_ms(self) -> int:
        """Idle, stalled and underused, whatever their tier."""
        return sum(self.ms)

    def wasted_in(self, state: str) -> bool:
        """Whether any of it was wasted in that state of the ledger."""
        return any(
            ms > 0 and of == state for ms, (of, _) in zip(self.ms, WASTE.values(), strict=True)
        )

    @property
    def wasted_usd(self) -> Decimal:
        return pricing.divided(sum(self.usd_ms, ZERO))

    @property
    def held_usd(self) -> Decimal:
        """All of the affected time, wasted or not."""
        return pricing.divided(self.held_usd_ms)

    @property
    def tier_ms(self) -> dict[str, int]:
        """Wasted time by tier; certain and probable are the headline, potential stands apart."""
        return {tier: sum(self._of(self.ms, 1, tier)) for tier in TIERS}

    @property
    def tier_usd(self) -> dict[str, Decimal]:
        return {tier: pricing.divided(sum(self._of(self.usd_ms, 1, tier), ZERO)) for tier in TIERS}

    @property
    def totals(self) -> Totals:
        """As a line of a breakdown of idle, stalled and underused time."""
        return Totals(
            capacity_ms=self.wasted_ms,
            states={state: sum(self._of(self.ms, 0, state)) for state in STATES},
            cost_usd=self.wasted_usd,
            cost_by_state={
                state: pricing.divided(sum(self._of(self.usd_ms, 0, state), ZERO))
                for state in STATES
            },
            waste_ms=self.tier_ms,
            waste_usd=self.tier_usd,
            unpriced_ms=self.unpriced_ms,
            has_example_rates=self.has_example_rates,
            energy_j=None,
            waiting_ms=self.ms[_WAITING],
            waiting_usd=pricing.divided(self.usd_ms[_WAITING]),
        )

    @staticmethod
    def _of(values: Sequence[Value], place: int, name: str) -> list[Value]:
        """Those whose state (place 0) or tier (1) is that one."""
        return [
            value
            for value, label in zip(values, WASTE.values(), strict=True)
            if label[place] == name
        ]


def nothing(job_id: int, cause: str) -> Caused:
    """A cause without any time."""
    none = [ZERO] * len(WASTE)
    return Caused(job_id, cause, 0, 0, [0] * len(WASTE), 0, 0, ZERO, none, ZERO, ZERO, 0, False)


def total(several: Iterable[Caused]) -> Saving:
    """The sum of savings; never more than what was wasted, for each is one cause's of its
    own time.
    """
    low_ms = high_ms = 0
    low_usd_ms = high_usd_ms = ZERO
    for one in several:
        low_ms, high_ms = low_ms + one.low_ms, high_ms + one.high_ms
        low_usd_ms, high_usd_ms = low_usd_ms + one.low_usd_ms, high_usd_ms + one.high_usd_ms
    return Saving(low_ms, high_ms, pricing.divided(low_usd_ms), pricing.divided(high_usd_ms))


def together(several: Iterable[Saving]) -> Saving:
    """The sum of savings of different time."""
    each = list(several)
    return Saving(
        sum(one.low_ms for one in each),
        sum(one.high_ms for one in each),
        sum((one.low_usd for one in each), ZERO),
        sum((one.high_usd for one in each), ZERO),
    )


def rest(whole: Totals, parts: list[Totals]) -> Totals:
    """What of the whole no part has.

    Its dollars are what is left, so that all lines sum to the whole.
    """
    return Totals(
        capacity_ms=whole.capacity_ms - sum(part.capacity_ms for part in parts),
        states={
            state: ms - sum(part.states[state] for part in parts)
            for state, ms in whole.states.items()
        },
        cost_usd=whole.cost_usd - sum((part.cost_usd for part in parts), ZERO),
        cost_by_state={
            state: usd - sum((part.cost_by_state[state] for part in parts), ZERO)
            for state, usd in whole.cost_by_state.items()
        },
        waste_ms={
            tier: ms - sum(part.waste_ms[tier] for part in parts)
            for tier, ms in whole.waste_ms.items()
        },
        waste_usd={
            tier: usd - sum((part.waste_usd[tier] for part in parts), ZERO)
            for tier, usd in whole.waste_usd.items()
        },
        unpriced_ms=whole.unpriced_ms - sum(part.unpriced_ms for part in parts),
        has_example_rates=whole.has_example_rates,
        energy_j=None,
        busy_only_ms=whole.busy_only_ms - sum(part.busy_only_ms for part in parts),
        busy_only_usd=whole.busy_only_usd - sum((part.busy_only_usd for part in parts), ZERO),
        waiting_ms=whole.waiting_ms - sum(part.waiting_ms for part in parts),
        waiting_usd=whole.waiting_usd - sum((part.waiting_usd for part in parts), ZERO),
    )
