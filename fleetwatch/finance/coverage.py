"""What commitments cover of what was there: GPU time and dollars that add up. Pure.

Each hour on its own: a GPU too many at night makes up for none that was missing by day. Each
GPU-hour that was there covers one commitment at most: the narrowest takes first, then the older
one, and of what it takes held GPUs come first.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

from fleetwatch.figures.pricing import EXACT, lines
from fleetwatch.figures.totals import ZERO


@dataclass(frozen=True, slots=True)
class Kind:
    """GPUs that a commitment can't tell apart: "" = the node's labels do not say."""

    gpu_model: str
    pool: str = ""
    node_class: str = ""
    region: str = ""


@dataclass(frozen=True, slots=True)
class There:
    """GPU time of one kind in one hour, by the ledger: all of it, what a job held, and its average
    price by the rate book.

    The price is dollars per GPU-millisecond, exactly.
    """

    capacity_ms: int
    held_ms: int
    usd_per_ms: Fraction


@dataclass(frozen=True, slots=True)
class Promise:
    """What one commitment promised in one hour; `usd_per_ms` is dollars per GPU-millisecond,
    exactly.
    """

    commitment: int
    wanted: Kind  # "" = any
    gpu_ms: int
    usd_per_ms: Fraction


@dataclass(frozen=True, slots=True)
class Covered:
    """One commitment over a period. Times and dollars of the three parts sum to what was committed.

    `rate_book_usd` is what the rate book says of the part that was there: beside the ledger's cost
    only `missing_usd` was paid.
    """

    commitment: int
    used_ms: int  # there, and a job held it
    unheld_ms: int  # there, and no job held it: free, orphaned, unavailable, unobserved
    missing_ms: int  # committed, and no GPU in the ledger
    used_usd: Decimal
    unheld_usd: Decimal
    missing_usd: Decimal
    rate_book_usd: Decimal

    @property
    def committed_ms(self) -> int:
        return self.used_ms + self.unheld_ms + self.missing_ms

    @property
    def covered_ms(self) -> int:
        return self.used_ms + self.unheld_ms

    @property
    def committed_usd(self) -> Decimal:
        return self.used_usd + self.unheld_usd + self.missing_usd

    @property
    def unused_usd(self) -> Decimal:
        return self.unheld_usd + self.missing_usd

    @property
    def coverage(self) -> float | None:
        """There ÷ committed, 0 to 1; None where nothing was committed."""
        return self.covered_ms / self.committed_ms if self.committed_ms else None

    @property
    def utilisation(self) -> float | None:
        """Held by jobs ÷ committed, 0 to 1; None where nothing was committed."""
        return self.used_ms / self.committed_ms if self.committed_ms else None

    @property
    def rate_book_differs_usd(self) -> Decimal:
        """What the commitment says of the part that was there, less what the rate book says: 0
        where both have one price.
        """
        return self.used_usd + self.unheld_usd - self.rate_book_usd


@dataclass(frozen=True, slots=True)
class Above:
    """GPU time of a model that a commitment could have covered and none did, at its own rates."""

    gpu_model: str
    gpu_ms: int
    cost_usd: Decimal


# a fraction's numerator and denominator: hashing a Fraction costs more than all else here
_Price = tuple[int, int]
_MsByPrice = defaultdict[_Price, int]  # milliseconds by dollars per millisecond: multiplied once


@dataclass(slots=True)
class _Left:
    """What is still to be covered of a kind in an hour, and its average price by the rate book."""

    held_ms: int
    unheld_ms: int
    price: _Price


@dataclass(slots=True)
class _Sum:
    used_ms: int = 0
    unheld_ms: int = 0
    missing_ms: int = 0
    used: _MsByPrice = field(default_factory=lambda: defaultdict(int))
    unheld: _MsByPrice = field(default_factory=lambda: defaultdict(int))
    missing: _MsByPrice = field(default_factory=lambda: defaultdict(int))
    rate_book: _MsByPrice = field(default_factory=lambda: defaultdict(int))


def cover(
    promised: Mapping[datetime, Sequence[Promise]], there: Mapping[datetime, Mapping[Kind, There]]
) -> tuple[list[Covered], list[Above]]:
    """Each commitment over all hours, in the order of their first promise, and what no commitment
    covered, by GPU model.

    Dollars are micro-dollars; the parts of all commitments sum to their exact total, rounded once.
    An hour's promises stand in the order in which they take: the narrowest first (narrowness()),
    then the older.
    """
    sums: dict[int, _Sum] = defaultdict(_Sum)
    above: dict[str, _MsByPrice] = defaultdict(lambda: defaultdict(int))
    # which kinds a promise can take from, in order: asked once, not in each hour
    every = sorted({kind for kinds in there.values() for kind in kinds}, key=_order)
    wanted = {promise.wanted for promises in promised.values() for promise in promises}
    fitting = {each: [kind for kind in every if _fits(kind, each)] for each in wanted}
    for hour, promises in promised.items():
        left = {
            kind: _Left(
                each.held_ms, each.capacity_ms - each.held_ms, each.usd_per_ms.as_integer_ratio()
            )
            for kind, each in there.get(hour, {}).items()
        }
        for promise in promises:
            _take(
                promise,
                sums[promise.commitment],
                [left[kind] for kind in fitting[promise.wanted] if kind in left],
            )
        for kind in {
            kind for promise in promises for kind in fitting[promise.wanted]
        } & left.keys():
            above[kind.gpu_model][left[kind].price] += left[kind].held_ms + left[kind].unheld_ms
    return _covered(sums), [
        Above(model, sum(uncovered.values()), _usd(uncovered))
        for model, uncovered in sorted(above.items())
        if any(uncovered.values())
    ]


def together(first: There, second: There) -> There:
    """The two of one kind and hour, at their average price."""
    capacity_ms = first.capacity_ms + second.capacity_ms
    usd = first.usd_per_ms * first.capacity_ms + second.usd_per_ms * second.capacity_ms
    return There(capacity_ms, first.held_ms + second.held_ms, usd / capacity_ms)


def narrowness(kind: Kind) -> int:
    """How many of pool, class and region a commitment names."""
    return sum(bool(text) for text in (kind.pool, kind.node_class, kind.region))


def _take(promise: Promise, into: _Sum, fitting: Sequence[_Left]) -> None:
    """Takes what the promise can have of what is left: held time first."""
    open_ms, price = promise.gpu_ms, promise.usd_per_ms.as_integer_ratio()
    for left in fitting:
        if taken := min(open_ms, left.held_ms):
            left.held_ms -= taken
            open_ms -= taken
            into.used_ms += taken
            into.rate_book[left.price] += taken
    into.used[price] += promise.gpu_ms - open_ms
    needed_ms = open_ms
    for left in fitting:
        if taken := min(open_ms, left.unheld_ms):
            left.unheld_ms -= taken
            open_ms -= taken
            into.unheld_ms += taken
            into.rate_book[left.price] += taken
    into.unheld[price] += needed_ms - open_ms
    into.missing_ms += open_ms
    into.missing[price] += open_ms


def _fits(kind: Kind, wanted: Kind) -> bool:
    return (
        kind.gpu_model == wanted.gpu_model
        and wanted.pool in ("", kind.pool)
        and wanted.node_class in ("", kind.node_class)
        and wanted.region in ("", kind.region)
    )


def _order(kind: Kind) -> tuple[str, str, str, str]:
    return kind.gpu_model, kind.pool, kind.node_class, kind.region


def _covered(sums: Mapping[int, _Sum]) -> list[Covered]:
    parts = [
        _usd(part) for each in sums.values() for part in (each.used, each.unheld, each.missing)
    ]
    amounts = iter(lines(parts))
    return [
        Covered(
            pk,
            each.used_ms,
            each.unheld_ms,
            each.missing_ms,
            next(amounts),
            next(amounts),
            next(amounts),
            _usd(each.rate_book),
        )
        for pk, each in sums.items()
    ]


def _usd(ms_by_price: Mapping[_Price, int]) -> Decimal:
    return _decimal(
        sum((Fraction(*price) * gpu_ms for price, gpu_ms in ms_by_price.items()), Fraction(0))
    )


def _decimal(amount: Fraction) -> Decimal:
    return EXACT.divide(Decimal(amount.numerator), Decimal(amount.denominator))


def missing_usd(every: Iterable[Covered]) -> Decimal:
    """What was paid for GPUs that were not there, of all commitments."""
    return sum((each.missing_usd for each in every), ZERO)
