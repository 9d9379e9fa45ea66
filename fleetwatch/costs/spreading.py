"""Free capacity: a line of its own, unless somebody asks for it to be spread over the teams. Pure.

Whatever the way, the lines sum to what they summed to before, to the micro-dollar.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext

from fleetwatch.figures.pricing import EXACT, exact_sum, lines, usd
from fleetwatch.figures.totals import ZERO, Group

OWN_LINE = "own"
PROPORTIONAL = "proportional"
EVEN = "even"
WAYS = (OWN_LINE, PROPORTIONAL, EVEN)


@dataclass(frozen=True, slots=True)
class Spread:
    """Dollars in whole micro-dollars: what each line has itself, what it gets of the free capacity,
    and what of that stays apart.
    """

    own_usd: dict[str, Decimal]
    free_usd: dict[str, Decimal]
    left_usd: Decimal

    @property
    def total_usd(self) -> Decimal:
        return sum((*self.own_usd.values(), *self.free_usd.values()), self.left_usd)

    def line_usd(self, key: str) -> Decimal:
        return self.own_usd[key] + self.free_usd[key]


def spread(costs: Mapping[str, Decimal], free_usd: Decimal, way: str) -> Spread:
    """The lines with their part of the free capacity.

    own: nobody gets any. proportional: by each line's own dollars (evenly where all have none).
    even: the same for each. Without lines all stays apart. Raises ValueError for another way.
    """
    *rounded, free = lines([*costs.values(), free_usd])
    own = dict(zip(costs, rounded, strict=True))
    weights = _weights(own, way)
    if not weights:
        return Spread(own, dict.fromkeys(costs, ZERO), free)
    with localcontext(EXACT):
        whole = sum(weights.values())
        parts = [free * weight / whole for weight in weights.values()]
    return Spread(own, dict(zip(costs, lines(parts, total=free), strict=True)), ZERO)


def with_free(groups: Sequence[Group], way: str) -> dict[str, Decimal]:
    """Dollars by key of the groups of one breakdown (by team or user), with their part of what
    stood free.

    What no job held keeps the rest of its dollars. In whole micro-dollars that sum to those of the
    groups.
    """
    free = sum((group.totals.cost_by_state["free"] for group in groups), ZERO)
    costs = {group.key: group.totals.cost_usd for group in groups}
    parts = spread({key: cost for key, cost in costs.items() if key}, free, way)
    rest = usd(sum(costs.values(), ZERO)) - parts.total_usd + parts.left_usd
    return {key: parts.line_usd(key) if key else rest for key in costs}


def _weights(own: Mapping[str, Decimal], way: str) -> Mapping[str, Decimal]:
    """What each line weighs; nothing where none gets any."""
    if way not in WAYS:
        raise ValueError(f"free capacity is spread {', '.join(WAYS)}, not {way!r}")
    if way == OWN_LINE:
        return {}
    is_proportional = way == PROPORTIONAL and exact_sum(own.values())
    return own if is_proportional else dict.fromkeys(own, Decimal(1))
