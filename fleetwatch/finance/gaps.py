"""Why an invoice says something else than the ledger: effects that sum to the difference. Pure.

docs/reports.md has the formulas and an example by hand. The ledger's price is its dollars by its
hours, of the same GPUs:

- committed: hours that a commitment bills for GPUs that were not there, as far as the invoice has
  more hours than the ledger: a line of the fleet's report already;
- unobserved: hours that the ledger counts, nobody observed and the invoice does not bill, at the
  ledger's price;
- hours: what else differs in hours, at the ledger's price;
- rate: the billed hours at the invoice's price instead of the ledger's.
"""

from dataclasses import dataclass
from decimal import Decimal
from functools import partial

from fleetwatch.figures.pricing import EXACT, usd
from fleetwatch.figures.totals import ZERO
from fleetwatch.lib.intervals import HOUR_MS
from fleetwatch.reports.effects import at_its_price, fitted


@dataclass(frozen=True, slots=True)
class Billed:
    """What an invoice bills for some GPUs: GPU-hours (None = not by the hour) and micro-dollars."""

    gpu_hours: Decimal | None
    usd: Decimal


@dataclass(frozen=True, slots=True)
class Counted:
    """What the ledger has of them, or commitments to them paid for and did not get: GPU time, what
    of it nobody observed, and dollars.
    """

    gpu_ms: int = 0
    unobserved_ms: int = 0
    usd: Decimal = ZERO

    def __add__(self, other: "Counted") -> "Counted":
        return Counted(
            self.gpu_ms + other.gpu_ms,
            self.unobserved_ms + other.unobserved_ms,
            EXACT.add(self.usd, other.usd),
        )


# why the books differ, as fields of a Gap and (but for the first) of what is booked of one
PARTS = ("committed_usd", "unobserved_usd", "hours_usd", "rate_usd", "other_usd")
BOOKED_PARTS = PARTS[1:]


@dataclass(frozen=True, slots=True)
class Gap:
    """Micro-dollars that sum to invoice less ledger.

    `other` is what nothing in the other book stands for.
    """

    committed_usd: Decimal = ZERO
    unobserved_usd: Decimal = ZERO
    hours_usd: Decimal = ZERO
    rate_usd: Decimal = ZERO
    other_usd: Decimal = ZERO

    @property
    def difference_usd(self) -> Decimal:
        return self.committed_usd + self.open_usd

    @property
    def open_usd(self) -> Decimal:
        """What no line of the fleet's report says yet."""
        return self.unobserved_usd + self.hours_usd + self.rate_usd + self.other_usd

    def __add__(self, other: "Gap") -> "Gap":
        return Gap(*(getattr(self, name) + getattr(other, name) for name in PARTS))

    def less(self, booked: "Gap") -> "Gap":
        return Gap(*(getattr(self, name) - getattr(booked, name) for name in PARTS))


def explain(billed: Billed, counted: Counted, missing: Counted) -> Gap:
    """The difference of the same GPUs' dollars in both books, by its reasons.

    GPUs of which the ledger has no time have no price in it: what commitments do not explain is
    without a counterpart. An invoice that bills no hours differs by its rate alone.
    """
    difference = billed.usd - counted.usd
    if billed.gpu_hours is None:
        return Gap(rate_usd=difference) if counted.gpu_ms else Gap(other_usd=difference)
    more_ms = billed.gpu_hours * HOUR_MS - counted.gpu_ms
    committed_ms = min(Decimal(missing.gpu_ms), max(more_ms, ZERO))
    committed = usd(at_its_price(missing.usd, missing.gpu_ms, committed_ms))
    if not counted.gpu_ms:
        return Gap(committed_usd=committed, other_usd=difference - committed)
    rest = difference - committed
    return Gap(committed, *_parts(counted, more_ms - committed_ms, rest))


def _parts(counted: Counted, more_ms: Decimal, difference: Decimal) -> list[Decimal]:
    """What of the difference is of unobserved hours, of other hours and of the rate."""
    at_ledger_price = partial(at_its_price, counted.usd, counted.gpu_ms)
    unobserved_ms = max(min(more_ms, ZERO), Decimal(-counted.unobserved_ms))
    unobserved = at_ledger_price(unobserved_ms)
    hours = at_ledger_price(more_ms - unobserved_ms)
    rate = EXACT.subtract(EXACT.subtract(difference, unobserved), hours)
    return fitted([unobserved, hours, rate], difference)
