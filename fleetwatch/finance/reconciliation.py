"""Reads a month's invoices and what the ledger has beside them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db import connection
from django.db.models import Max, QuerySet

from fleetwatch.accounts.selectors import zone
from fleetwatch.figures import pricing
from fleetwatch.figures.totals import NOBODY, ZERO
from fleetwatch.finance import commitments
from fleetwatch.finance.gaps import Counted, Gap, Missing
from fleetwatch.finance.kinds import KindTime, time_of_kinds
from fleetwatch.finance.reconciling import Bill, Line, Owner, fingerprint, reconcile, total
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.sql import read_statement
from fleetwatch.reports import months
from fleetwatch.reports.models import Invoice, InvoiceAdjustment, InvoiceLine, InvoiceSKU

OWNED = "owned"
_ADJUSTED = read_statement("finance/sql/adjusted_owners.sql")


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """A month's invoices beside its ledger, of the days that are over. No invoice: no lines."""

    month: months.Month
    invoices: list[Invoice]
    lines: list[Line]
    total: Line
    fingerprint: str
    unpriced_ms: int  # GPU time of the ledger that has no rate: its dollars are all rate


def reconciliation(name: str, *, now: datetime) -> Reconciliation:
    """The month of that name. Raises ValueError where it is none, or no day of it is over."""
    month = months.month(name, now=now, zone=zone())
    invoices = list(Invoice.objects.filter(month=name).order_by("issuer"))
    booked = booked_by_key(name)
    if not invoices and not booked:
        return Reconciliation(month, [], [], total([]), fingerprint([]), 0)
    times = time_of_kinds(month.interval)
    ledger, unpriced_ms = _ledger(month.interval, times)
    lines = reconcile(_bills(invoices), ledger, _missing(month.interval, times, now), booked)
    return Reconciliation(month, invoices, lines, total(lines), fingerprint(lines), unpriced_ms)


def bookings(month: str) -> QuerySet[InvoiceAdjustment]:
    """What was booked of the month's reconciliation, withdrawn or not, the newest first."""
    return InvoiceAdjustment.objects.filter(month=month).order_by("-booked_at", "-pk")


def booked_by_key(month: str) -> dict[str, tuple[str, Gap]]:
    """Label and sum of what was booked of each line and not withdrawn."""
    found: dict[str, tuple[str, Gap]] = {}
    for each in bookings(month).filter(withdrawn_at__isnull=True):
        gap = Gap(ZERO, each.unobserved_usd, each.hours_usd, each.rate_usd, each.other_usd)
        found[each.key] = (each.label, found[each.key][1] + gap if each.key in found else gap)
    return found


def skus() -> dict[str, InvoiceSKU]:
    """What is known of providers' SKUs."""
    return {each.sku: each for each in InvoiceSKU.objects.select_related("gpu_model")}


@dataclass(frozen=True, slots=True)
class SKU:
    """A SKU that the month's invoices bill, and what is known of it; `gpu_model` "" = nothing."""

    sku: str
    description: str
    gpu_model: str
    gpus_per_hour: int


def billed_skus(month: str) -> list[SKU]:
    """The SKUs of the month's invoices whose GPU model the file does not say, those that nobody
    named first, the dearest ahead.
    """
    known = skus()
    lines = InvoiceLine.objects.filter(invoice__month=month, gpu_model="").exclude(sku="")
    rows = (
        lines.values("sku")
        .annotate(dearest=Max("amount"), told=Max("description"))
        .order_by("-dearest", "sku")
    )
    found = [_sku(row["sku"], row["told"], known.get(row["sku"])) for row in rows]
    return sorted(found, key=lambda each: bool(each.gpu_model))


def _sku(sku: str, description: str, known: InvoiceSKU | None) -> SKU:
    return SKU(
        sku, description, known.gpu_model.name if known else "", known.gpus_per_hour if known else 1
    )


def _bills(invoices: Iterable[Invoice]) -> list[Bill]:
    known = skus()
    lines = (
        InvoiceLine.objects.filter(invoice__in=list(invoices))
        .select_related("invoice")
        .order_by("invoice__issuer", "line", "pk")
    )
    return [_bill(line, known.get(line.sku)) for line in lines]


def _bill(line: InvoiceLine, known: InvoiceSKU | None) -> Bill:
    """What somebody said of its SKU is stronger than what the file says."""
    gpu_model = known.gpu_model.name if known else line.gpu_model
    gpus = known.gpus_per_hour if known and line.gpus_per_hour != 1 else line.gpus_per_hour
    hours = (
        None
        if line.hours is None or gpus is None
        else pricing.EXACT.multiply(line.hours, Decimal(gpus))
    )
    return Bill(
        issuer=line.invoice.issuer,
        sku=line.sku,
        region=line.region,
        category=line.category,
        description=line.description,
        gpu_model=gpu_model,
        gpu_hours=hours,
        usd=pricing.EXACT.multiply(line.amount, line.invoice.usd_per_unit),
    )


def _ledger(interval: Interval, times: Iterable[KindTime]) -> tuple[dict[Owner, Counted], int]:
    """GPU time and exact dollars by GPU model, region and whether the node is owned, adjustments of
    closed hours included; unpriced ms.
    """
    found: dict[Owner, Counted] = {}
    unpriced_ms = 0
    for each in times:
        gpu_ms, rate = sum(each.capacity_ms), each.usd_per_gpu_hour
        cost_usd = pricing.price([(gpu_ms, rate)])
        owner = Owner(each.kind.gpu_model, each.kind.region, each.kind.node_class == OWNED)
        _add(found, owner, Counted(gpu_ms, sum(each.unobserved_ms), cost_usd))
        unpriced_ms += gpu_ms if rate is None else 0
    for owner, counted, rate in _adjusted(interval):
        _add(found, owner, counted)
        unpriced_ms += counted.gpu_ms if rate is None else 0
    return found, unpriced_ms


def _add(found: dict[Owner, Counted], owner: Owner, more: Counted) -> None:
    known = found.get(owner, Counted())
    found[owner] = Counted(
        known.gpu_ms + more.gpu_ms,
        known.unobserved_ms + more.unobserved_ms,
        pricing.EXACT.add(known.usd, more.usd),
    )


def _adjusted(interval: Interval) -> list[tuple[Owner, Counted, Decimal | None]]:
    with connection.cursor() as cursor:
        cursor.execute(_ADJUSTED, {"start": interval.start, "end": interval.end})
        return [
            (
                Owner(model or NOBODY, region, is_owned),
                Counted(
                    gpu_ms,
                    gpu_ms if is_unobserved else 0,
                    pricing.price([(gpu_ms, rate)]),
                ),
                rate,
            )
            for model, region, is_owned, is_unobserved, rate, gpu_ms in cursor.fetchall()
        ]


def _missing(
    interval: Interval, times: Sequence[KindTime], now: datetime
) -> dict[tuple[str, str], Missing]:
    """What commitments paid for GPUs that were not there, by GPU model and region."""
    sums: dict[tuple[str, str], list[tuple[int, Decimal]]] = defaultdict(list)
    for commitment, line in commitments.coverage(interval, now=now, times=times).lines:
        sums[commitment.gpu_model.name, commitment.region].append(
            (line.missing_ms, line.missing_usd)
        )
    return {
        key: Missing(sum(ms for ms, _ in each), sum((usd for _, usd in each), ZERO))
        for key, each in sums.items()
    }
