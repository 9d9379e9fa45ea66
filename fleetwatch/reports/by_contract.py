"""What the fleet's month comes to at the rates, by contract, and with what was booked of invoices.
Pure.

A booked line of an invoice says what its GPUs were billed, their contract's price with it: beside
it that price counts for the commitments of other GPUs alone.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from fleetwatch.figures.pricing import exact_sum
from fleetwatch.reports.statement import Shape


@dataclass(frozen=True, slots=True)
class MonthSums:
    """Dollars of a month: none of what was booked is in the first two."""

    rates_usd: Decimal
    contract_usd: Decimal
    booked_usd: Decimal


def sums(content: Shape) -> MonthSums:
    """Of a fleet's report that has what is paid beside its cost."""
    commitments = content["commitments"]
    rates_usd = Decimal(content["paid_usd"]) - Decimal(content["invoiced_usd"])
    contract_usd = rates_usd + _more(commitments)
    billed_usd = _more(each for each in commitments if is_invoiced(content, each))
    return MonthSums(
        rates_usd, contract_usd, contract_usd + Decimal(content["invoiced_usd"]) - billed_usd
    )


def is_invoiced(content: Shape, commitment: Shape) -> bool:
    """Whether the booked line of its GPUs is in the report; older versions do not say of which GPUs
    a booking is, so it is of all.
    """
    booked = content.get("invoice_lines", [])
    is_of_month = any(line["invoice_of"] == content["month"] for line in booked)
    return bool(commitment.get("is_invoiced", is_of_month))


def is_there(commitment: Shape) -> bool:
    """Whether any of its GPUs was there, held or not: then it has a line of its price."""
    return bool(commitment["used_ms"] or commitment["unheld_ms"])


def taken_back(content: Shape) -> list[Shape]:
    """The commitments whose price a booked line says already, with what is taken back for that."""
    return [
        each | {"taken_back_usd": -Decimal(each["rate_book_differs_usd"])}
        for each in content.get("commitments", [])
        if is_taken_back(content, each)
    ]


def is_taken_back(content: Shape, commitment: Shape) -> bool:
    """Whether a booked line says the commitment's price already."""
    return is_there(commitment) and is_invoiced(content, commitment)


def _more(commitments: Iterable[Shape]) -> Decimal:
    return exact_sum(Decimal(each["rate_book_differs_usd"]) for each in commitments)
