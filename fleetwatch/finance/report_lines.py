"""What is paid beside the ledger's dollars in a month: commitments for GPUs that were not there,
and booked differences to invoices.

Lines of the fleet's report alone, never in a team's statement: fleet cost + adjustments + these
lines = paid_usd, in which GPUs that were there count at the rates.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict
from decimal import Decimal
from fractions import Fraction

from django.db.models import QuerySet

from fleetwatch.accounts.selectors import zone
from fleetwatch.costs.models import Commitment
from fleetwatch.figures import boundaries, pricing
from fleetwatch.finance.commitments import Coverage, coverage
from fleetwatch.finance.coverage import Covered, Missing, missing_usd
from fleetwatch.finance.gaps import BOOKED_PARTS
from fleetwatch.finance.reconciling import matched_key
from fleetwatch.lib.intervals import HOUR_MS, Interval
from fleetwatch.lib.sql import execute, read_statement
from fleetwatch.reports.beside import Beside
from fleetwatch.reports.models import InvoiceAdjustment
from fleetwatch.reports.statement import NO_USD, TWELVE_PLACES, Shape, rounded, summed

_DIGEST = read_statement("finance/sql/lines_beside.sql")


def lines(month: Interval, name: str, adjusted_usd: Decimal) -> Shape:
    """The part of the fleet's report that tells them, and what the month comes to with them; `name`
    is the month's.
    """
    covered = coverage(month)
    not_delivered = missing_usd(line for _, line in covered.lines) + NO_USD
    bookings = list(_bookings(name).order_by("month", "pk"))
    booked = [_booked(each) for each in bookings]
    billed = _billed_keys(name, bookings)
    invoiced = summed(line["cost_usd"] for line in booked)
    return {
        "commitments": [
            _commitment(commitment, line)
            | _beside_time(commitment, covered, billed)
            | {"missing_days": _missing_days(line, month)}
            for commitment, line in covered.lines
        ],
        "above_commitments": [
            asdict(each) | {"cost_usd": rounded(each.cost_usd)} for each in covered.above
        ],
        "not_delivered_usd": not_delivered,
        "invoice_lines": booked,
        "invoiced_usd": invoiced,
        "paid_usd": adjusted_usd + not_delivered + invoiced,
    }


def has_lines(month: Interval, name: str) -> bool:
    """Whether there is anything to tell beside the ledger: a commitment of its time, or a booked
    difference.
    """
    return bool(coverage(month).lines) or _bookings(name).exists()


def digest(month: Interval) -> str:
    """32 hex digits; the same ones mean that the lines are still the same."""
    wanted = {"start": month.start, "end": month.end, "zone": zone().key}
    [(text,)] = execute(_DIGEST, wanted)
    return str(text)


def _bookings(name: str) -> QuerySet[InvoiceAdjustment]:
    return InvoiceAdjustment.objects.filter(booked_in=name, withdrawn_at__isnull=True)


def _billed_keys(name: str, bookings: Iterable[InvoiceAdjustment]) -> set[str]:
    """The lines of the month's own invoice of which something is booked."""
    amounts: dict[str, Decimal] = defaultdict(Decimal)
    for each in bookings:
        if each.month == name:
            amounts[each.key] += each.amount_usd
    return {key for key, amount in amounts.items() if amount}


def _keys(commitment: Commitment) -> set[str]:
    """The lines of an invoice that its GPUs are of: the model's, and that of their region."""
    return {matched_key(commitment.gpu_model.name, region) for region in ("", commitment.region)}


def _commitment(commitment: Commitment, line: Covered) -> Shape:
    names = ("name", "pool", "node_class", "region", "gpus")
    times = ("committed_ms", "used_ms", "unheld_ms", "missing_ms")
    dollars = (
        "committed_usd",
        "used_usd",
        "unheld_usd",
        "missing_usd",
        "unused_usd",
        "rate_book_usd",
        "rate_book_differs_usd",
    )
    return {
        "id": commitment.pk,
        "gpu_model": commitment.gpu_model.name,
        **{each: getattr(commitment, each) for each in names},
        **{each: getattr(line, each) for each in times},
        **{each: rounded(getattr(line, each)) for each in dollars},
    }


def _beside_time(commitment: Commitment, covered: Coverage, billed: set[str]) -> Shape:
    return {
        "before_ms": covered.before_ms.get(commitment.pk, 0),
        "is_invoiced": not billed.isdisjoint(_keys(commitment)),
    }


def _missing_days(line: Covered, month: Interval) -> list[Shape]:
    """What was not there by the number of the day, the month's first is 0; they sum to the month's,
    to the micro-dollar.
    """
    starts = [day.start for day in boundaries.days(month, zone())]
    of_days: dict[int, list[Missing]] = defaultdict(list)
    for each in line.missing:
        of_days[bisect_right(starts, each.hour) - 1].append(each)
    exact = [_usd(of_day) for of_day in of_days.values()]
    dollars = pricing.lines(exact, total=line.missing_usd)
    return [
        {"day": day, "missing_usd": missing_usd} | _hours_and_price(of_days[day], usd)
        for day, usd, missing_usd in zip(of_days, exact, dollars, strict=True)
    ]


def _hours_and_price(missing: Iterable[Missing], usd: Decimal) -> Shape:
    gpu_ms = sum(each.gpu_ms for each in missing)
    price = pricing.EXACT.divide(usd * HOUR_MS, Decimal(gpu_ms))
    return {"missing_ms": gpu_ms, "usd_per_gpu_hour": rounded(price, TWELVE_PLACES)}


def _usd(missing: Iterable[Missing]) -> Decimal:
    """By the contract, exactly."""
    usd = sum((each.usd for each in missing), Fraction(0))
    return pricing.EXACT.divide(Decimal(usd.numerator), Decimal(usd.denominator))


def _booked(each: InvoiceAdjustment) -> Shape:
    return {
        "label": each.label,
        "invoice_of": each.month,
        "reason": each.reason,
        "booked_by": each.booked_by,
        "cost_usd": each.amount_usd,
        **{name: getattr(each, name) for name in BOOKED_PARTS},
    }


BESIDE = Beside(lines=lines, has_lines=has_lines, digest=digest)
