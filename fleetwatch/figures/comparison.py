"""Lines of a breakdown beside the same lines of the period before. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal

from fleetwatch.figures.totals import Group, Totals, nothing

# a smaller share of what was before is no change
LEAST_RATIO = Decimal("0.005")


def is_unchanged(change: Decimal, before: Decimal) -> bool:
    """Whether figures differ by less than what is worth a word."""
    return change == 0 or abs(change) < before * LEAST_RATIO


@dataclass(frozen=True, slots=True)
class Change:
    """Dollars of two periods; `before_usd` None = there is nothing to compare with. `key` is that
    of their line.
    """

    key: str
    usd: Decimal
    before_usd: Decimal | None

    @property
    def change_usd(self) -> Decimal | None:
        """How much more it is than before."""
        return None if self.before_usd is None else self.usd - self.before_usd

    @property
    def is_unchanged(self) -> bool:
        """Whether it is what it was, but for less than half a per cent."""
        change = self.change_usd
        if change is None or self.before_usd is None:
            return False
        return is_unchanged(change, self.before_usd)

    @property
    def change_ratio(self) -> float | None:
        """The change as a share of what it was before; None also where that was nothing."""
        return float(self.usd / self.before_usd - 1) if self.before_usd else None


@dataclass(frozen=True, slots=True)
class Compared:
    """A line, and what it was before; None = there is nothing to compare with."""

    key: str
    label: str
    totals: Totals
    before: Totals | None

    @property
    def cost(self) -> Change:
        before_usd = None if self.before is None else self.before.cost_usd
        return Change(self.key, self.totals.cost_usd, before_usd)

    @property
    def wasted(self) -> Change:
        before_usd = None if self.before is None else self.before.wasted_usd
        return Change(self.key, self.totals.wasted_usd, before_usd)

    @property
    def change_usd(self) -> Decimal | None:
        """How much more it costs than before."""
        return self.cost.change_usd

    @property
    def is_unchanged(self) -> bool:
        """Whether it costs what it did, but for less than half a per cent."""
        return self.cost.is_unchanged

    @property
    def change_ratio(self) -> float | None:
        """The same as a share of what it cost before; None also where that was nothing."""
        return self.cost.change_ratio


def compared(now: Iterable[Group], before: Iterable[Group] | None) -> list[Compared]:
    """Every line of both periods, those of now first, in their order; `before` None = there is
    nothing to compare with.
    """
    if before is None:
        return [Compared(line.key, line.label, line.totals, None) for line in now]
    earlier = {line.key: line for line in before}
    lines = []
    for line in now:
        then = earlier.pop(line.key, None)
        lines.append(
            Compared(line.key, line.label, line.totals, then.totals if then else nothing())
        )
    gone = (Compared(then.key, then.label, nothing(), then.totals) for then in earlier.values())
    return [*lines, *gone]


def _change(line: Compared) -> Decimal:
    return abs(line.change_usd or Decimal(0))


Sorted = Callable[[Compared], Decimal | int]
# what lines are sorted by, the largest first
SORTS: dict[str, Sorted] = {
    "cost": lambda line: line.totals.cost_usd,
    "time": lambda line: line.totals.capacity_ms,
    "before": lambda line: line.before.cost_usd if line.before else Decimal(0),
    "change": _change,
    "waste": lambda line: line.totals.wasted_usd,
}


def ordered(lines: Iterable[Compared], sort: str) -> list[Compared]:
    """By one of SORTS, the largest first, equal ones by name; what no job held comes last."""
    by_name = sorted(lines, key=lambda line: (line.label, line.key))
    by_size = sorted(by_name, key=SORTS[sort], reverse=True)
    return sorted(by_size, key=lambda line: not line.key)
