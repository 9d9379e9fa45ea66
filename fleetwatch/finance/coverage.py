"""What commitments cover of what was there: GPU time and dollars that add up. Pure.

Each hour on its own: a GPU too many at night makes up for none that was missing by day. Each
GPU-hour that was there covers one commitment at most: the narrowest takes first, then the older
one, and of what it takes held GPUs come first.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from fleetwatch.figures.pricing import EXACT, lines
from fleetwatch.figures.totals import ZERO


class Kind(NamedTuple):
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
class Missing:
    """GPU time that was committed in an hour and not there; `usd` by the contract, exactly."""

    hour: datetime
    gpu_ms: int
    usd: Fraction


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
    missing: tuple[Missing, ...] = ()  # by hour, what missing_ms and missing_usd sum

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
_MsByPrice = Counter[_Price]  # milliseconds by dollars per millisecond: multiplied once


@dataclass(slots=True)
class _Left:
    """What is still to be covered of a kind in an hour, and its average price by the rate book."""

    ms: dict[str, int]  # by part
    price: _Price
    is_wanted: bool = False  # a promise of the hour could take of it


# there and held, there and not held, not there
USED = "used"
UNHELD = "unheld"
MISSING = "missing"
PARTS = (USED, UNHELD, MISSING)
_RATE_BOOK = "rate book"
_Sum = defaultdict[str, _MsByPrice]  # by part, and by the rate book's prices


Promised = Mapping[datetime, Sequence[Promise]]  # by hour
Present = Mapping[datetime, Mapping[Kind, There]]


def cover(promised: Promised, there: Present) -> tuple[list[Covered], list[Above]]:
    """Each commitment over all hours, in the order of their first promise, and what no commitment
    covered, by GPU model.

    Dollars are micro-dollars; the parts of all commitments sum to their exact total, rounded once.
    An hour's promises stand in the order in which they take: the narrowest first (narrowness()),
    then the older.
    """
    sums: dict[int, _Sum] = defaultdict(lambda: defaultdict(Counter))
    missing: dict[int, list[Missing]] = defaultdict(list)
    above: _Sum = defaultdict(Counter)
    fitting = _fitting(promised, there)
    for hour, promises in promised.items():
        left = {kind: _left(each) for kind, each in there.get(hour, {}).items()}
        for promise in promises:
            missing_ms = _cover(promise, sums[promise.commitment], fitting[promise.wanted], left)
            missing[promise.commitment] += _missing(promise, hour, missing_ms)
        _add_above(above, left)
    return _covered(sums, missing), _above(above)


def _missing(promise: Promise, hour: datetime, gpu_ms: int) -> list[Missing]:
    return [Missing(hour, gpu_ms, promise.usd_per_ms * gpu_ms)] if gpu_ms else []


def _add_above(above: _Sum, left: Mapping[Kind, _Left]) -> None:
    """What is left of an hour and could have been covered."""
    for kind, each in left.items():
        if each.is_wanted:
            above[kind.gpu_model][each.price] += sum(each.ms.values())


def _fitting(promised: Promised, there: Present) -> dict[Kind, list[Kind]]:
    """Which kinds a promise can take from, in order: asked once, not in each hour."""
    every = sorted({kind for kinds in there.values() for kind in kinds})
    wanted = {promise.wanted for promises in promised.values() for promise in promises}
    return {each: [kind for kind in every if _fits(kind, each)] for each in wanted}


def _left(there: There) -> _Left:
    ms = {USED: there.held_ms, UNHELD: there.capacity_ms - there.held_ms}
    return _Left(ms, there.usd_per_ms.as_integer_ratio())


def together(first: There, second: There) -> There:
    """The two of one kind and hour, at their average price."""
    capacity_ms = first.capacity_ms + second.capacity_ms
    usd = first.usd_per_ms * first.capacity_ms + second.usd_per_ms * second.capacity_ms
    return There(capacity_ms, first.held_ms + second.held_ms, usd / capacity_ms)


def narrowness(kind: Kind) -> int:
    """How many of pool, class and region a commitment names."""
    return sum(map(bool, kind[1:]))


def _cover(
    promise: Promise, sums: _Sum, fitting: Iterable[Kind], left: Mapping[Kind, _Left]
) -> int:
    """Takes what the promise can have of what is left, held time first; gives back what was not
    there.
    """
    open_ms = promise.gpu_ms
    kinds = [left[kind] for kind in fitting if kind in left]
    for kind in kinds:
        kind.is_wanted = True
    price = promise.usd_per_ms.as_integer_ratio()
    for part in (USED, UNHELD):
        for kind in kinds:
            covered_ms = min(open_ms, kind.ms[part])
            open_ms -= covered_ms
            kind.ms[part] -= covered_ms
            sums[part][price] += covered_ms
            sums[_RATE_BOOK][kind.price] += covered_ms
    sums[MISSING][price] += open_ms
    return open_ms


def _fits(kind: Kind, wanted: Kind) -> bool:
    return all(text in ("", of_kind) for text, of_kind in zip(wanted, kind, strict=True))


def _covered(sums: Mapping[int, _Sum], missing: Mapping[int, Sequence[Missing]]) -> list[Covered]:
    amounts = iter(lines([_usd(each[part]) for each in sums.values() for part in PARTS]))
    covered = []
    for pk, each in sums.items():
        parts: dict[str, Any] = {}
        for part in PARTS:
            parts[f"{part}_ms"] = each[part].total()
            parts[f"{part}_usd"] = next(amounts)
        parts["rate_book_usd"] = _usd(each[_RATE_BOOK])
        covered.append(Covered(pk, **parts, missing=tuple(missing.get(pk, ()))))
    return covered


def _above(uncovered: Mapping[str, _MsByPrice]) -> list[Above]:
    sums = ((model, ms.total(), _usd(ms)) for model, ms in sorted(uncovered.items()))
    return [Above(model, gpu_ms, usd) for model, gpu_ms, usd in sums if gpu_ms]


def _usd(ms_by_price: Mapping[_Price, int]) -> Decimal:
    amounts = (Fraction(*price) * gpu_ms for price, gpu_ms in ms_by_price.items())
    total = sum(amounts, Fraction(0))
    return EXACT.divide(Decimal(total.numerator), Decimal(total.denominator))


def missing_usd(every: Iterable[Covered]) -> Decimal:
    """What was paid for GPUs that were not there, of all commitments."""
    return sum((each.missing_usd for each in every), ZERO)
