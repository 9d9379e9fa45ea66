"""A month's invoice beside the ledger as it is printed: cents that sum in each row and column.

The ledger's and the invoice's columns sum to their totals; a difference is what is printed of the
one less what is printed of the other, and its reasons sum to that.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from fleetwatch.dashboard import numbers
from fleetwatch.figures.pricing import CENT, exact_sum, usd
from fleetwatch.finance.gaps import Gap
from fleetwatch.finance.reconciling import COMMITTED, Line
from fleetwatch.reports.printed import apportioned

PARTS = ("unobserved_usd", "hours_usd", "rate_usd", "committed_usd", "other_usd")


@dataclass(frozen=True, slots=True)
class PrintedLine:
    """A line in cents; `reasons` by the names of PARTS."""

    line: Line
    billed_usd: Decimal
    ledger_usd: Decimal
    reasons: Mapping[str, Decimal]

    @property
    def difference_usd(self) -> Decimal:
        return self.billed_usd - self.ledger_usd

    @property
    def booked_usd(self) -> Decimal:
        return usd(self.line.booked.open_usd, CENT)

    @property
    def open_usd(self) -> Decimal:
        """What of the difference is in no report yet: what a commitment paid is in one already."""
        return self.difference_usd - self.reasons["committed_usd"] - self.booked_usd

    @property
    def is_beside_both(self) -> bool:
        """Whether neither invoice nor ledger has it: it is in the fleet's report alone."""
        return self.line.kind == COMMITTED and not self.difference_usd


def printed_lines(lines: Sequence[Line]) -> list[PrintedLine]:
    """The lines in cents, in their order."""
    billed = _column([line.billed_usd for line in lines])
    counted = _column([line.ledger_usd for line in lines])
    return [
        PrintedLine(line, billed_usd, ledger_usd, _reasons(line.gap, billed_usd - ledger_usd))
        for line, billed_usd, ledger_usd in zip(lines, billed, counted, strict=True)
    ]


def _column(amounts: Sequence[Decimal]) -> list[Decimal]:
    return apportioned(amounts, usd(exact_sum(amounts), CENT))


def _reasons(gap: Gap, difference_usd: Decimal) -> dict[str, Decimal]:
    """To the cent; what rounding leaves goes to the largest."""
    shown = {name: usd(getattr(gap, name), CENT) for name in PARTS}
    largest = max(PARTS, key=lambda name: abs(getattr(gap, name)))
    rest_usd = difference_usd - exact_sum(shown.values())
    return shown | {largest: shown[largest] + rest_usd}


def to_book_usd(lines: Sequence[Line]) -> list[Decimal]:
    """What is open of each line that is to be booked, as the invoice's page prints it, and that no
    report has: what commitments paid for GPUs that were not there is in one already.
    """
    return [
        each.open_usd
        for each in printed_lines(lines)
        if each.line.kind != COMMITTED and numbers.has_cents(each.line.open.open_usd)
    ]


def above_contract_usd(lines: Iterable[Line]) -> Decimal:
    """What the lines that are above the contract are above it, together."""
    return exact_sum(
        line.above_contract_usd
        for line in lines
        if line.is_above_contract and line.above_contract_usd is not None
    )
