"""One rate for a GPU model of which some GPUs are committed to, the others on demand. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from fleetwatch.figures.pricing import EXACT, usd


@dataclass(frozen=True, slots=True)
class Share:
    """So many GPUs at a price per GPU-hour."""

    gpus: int
    price: Decimal


@dataclass(frozen=True, slots=True)
class Blend:
    """Shares of the GPUs of one model, the last of which is on demand; one currency."""

    shares: tuple[Share, ...]

    @property
    def gpus(self) -> int:
        return sum(share.gpus for share in self.shares)

    @property
    def committed_gpus(self) -> int:
        return self.gpus - self.shares[-1].gpus

    @property
    def price(self) -> Decimal:
        """Their mean per GPU-hour, to the micro-dollar."""
        total = sum((share.gpus * share.price for share in self.shares), Decimal(0))
        return usd(EXACT.divide(total, Decimal(self.gpus)))

    @property
    def arithmetic(self) -> str:
        """(24 × 2.79 + 8 × 3.99) / 32"""
        terms = [f"{share.gpus} × {_plain(share.price)}" for share in self.shares]
        return f"({' + '.join(terms)}) / {self.gpus}"


def blend(committed: Sequence[Share], *, gpus: int, on_demand: Decimal) -> Blend | None:
    """The mean of the model's `gpus`; None where nothing is committed, or none is left for on
    demand.
    """
    left = gpus - sum(share.gpus for share in committed)
    if not committed or left <= 0:
        return None
    return Blend((*committed, Share(left, on_demand)))


def _plain(price: Decimal) -> str:
    """With all its digits, two at least."""
    places = max(2, -int(price.normalize().as_tuple().exponent))
    return f"{price:.{places}f}"
