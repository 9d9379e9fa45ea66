"""Free capacity: a line of its own, unless somebody asks for it to be spread over the teams. Pure.

Whatever the way, the lines sum to what they summed to before, to the micro-dollar.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from fleetwatch.figures.pricing import EXACT, lines, usd
from fleetwatch.figures.totals import ZERO, Group

OWN_LINE, PROPORTIONAL, EVEN, FIXED = "own", "proportional", "even", "fixed"
WAYS = (OWN_LINE, PROPORTIONAL, EVEN, FIXED)


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


def spread(
    costs: Mapping[str, Decimal],
    free_usd: Decimal,
    way: str,
    *,
    shares: Mapping[str, Decimal] | None = None,
) -> Spread:
    """The lines with their part of the free capacity.

    own: nobody gets any. proportional: by each line's own dollars (evenly where all have none).
    even: the same for each. fixed: by `shares` of the lines, 0 to 1 in sum; what they leave stays
    apart. Without lines all stays apart. Raises ValueError for another way, a share of no line, and
    shares that can't be.
    """
    *own, free = lines([*costs.values(), free_usd])
    weights = _weights(dict(zip(costs, own, strict=True)), way, shares or {})
    rest = EXACT.subtract(Decimal(1), _sum(weights)) if way == FIXED else Decimal(not weights)
    whole = EXACT.add(_sum(weights), rest)
    *parts, left = lines(
        [EXACT.divide(EXACT.multiply(free, weight), whole) for weight in (*weights.values(), rest)],
        total=free,
    )
    return Spread(
        dict(zip(costs, own, strict=True)),
        dict.fromkeys(costs, Decimal(0)) | dict(zip(weights, parts, strict=True)),
        left,
    )


def with_free(groups: Sequence[Group], way: str) -> dict[str, Decimal]:
    """Dollars by key of the groups of one breakdown (by team or user), with their part of what
    stood free.

    What no job held keeps the rest of its dollars. In whole micro-dollars that sum to those of the
    groups.
    """
    free = sum((group.totals.cost_by_state["free"] for group in groups), ZERO)
    found = spread({group.key: group.totals.cost_usd for group in groups if group.key}, free, way)
    rest = (
        usd(sum((group.totals.cost_usd for group in groups), ZERO))
        - found.total_usd
        + found.left_usd
    )
    return {group.key: found.line_usd(group.key) if group.key else rest for group in groups}


def _weights(
    own: Mapping[str, Decimal], way: str, shares: Mapping[str, Decimal]
) -> dict[str, Decimal]:
    """What each line weighs; nothing where none gets any."""
    match way:
        case "own":
            return {}
        case "even":
            return dict.fromkeys(own, Decimal(1))
        case "proportional":
            return dict(own) if _sum(own) else dict.fromkeys(own, Decimal(1))
        case "fixed":
            _check_shares(own, shares)
            return dict(shares)
    raise ValueError(f"free capacity is spread {', '.join(WAYS)}, not {way!r}")


def _check_shares(own: Mapping[str, Decimal], shares: Mapping[str, Decimal]) -> None:
    if unknown := shares.keys() - own.keys():
        raise ValueError(f"a share for {sorted(unknown)}, which have no line")
    if any(share < 0 for share in shares.values()) or _sum(shares) > 1:
        raise ValueError("shares are 0 to 1, and so is their sum")


def _sum(amounts: Mapping[str, Decimal]) -> Decimal:
    total = Decimal(0)
    for amount in amounts.values():
        total = EXACT.add(total, amount)
    return total
