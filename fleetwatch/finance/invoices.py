"""Writes of invoices: taken from a file once, replaced knowingly; and what a provider's SKU is."""

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from django.db import transaction

from fleetwatch.accounts.audit import record
from fleetwatch.accounts.selectors import zone
from fleetwatch.costs.rates import exchange
from fleetwatch.costs.rates.subjects import RateError
from fleetwatch.figures.pricing import EXACT, exact_sum
from fleetwatch.finance import invoice_csv
from fleetwatch.inventory.models import GPUModel
from fleetwatch.lib.csv_files.csv_rows import Fault, RefusedError
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.lib.sql import wait_for_lock
from fleetwatch.reports import months
from fleetwatch.reports.models import Invoice, InvoiceLine, InvoiceSKU

LONGEST_SKU = invoice_csv.MAX_TEXT["sku"]
LOCK = "reports.invoices"


class InvoiceError(RefusedFieldError):
    """Something about an invoice that can't be done."""


class StandsError(InvoiceError):
    """The month has another invoice of this issuer: it is replaced only when somebody says so."""


@dataclass(frozen=True, slots=True)
class Imported:
    """The invoice that stands now; whether this import made it, and whether it took another one's
    place.
    """

    rows: int
    lines: int
    usd: Decimal
    is_new: bool
    replaced: bool


@transaction.atomic
def import_invoice(
    content: bytes,
    month: str,
    *,
    now: datetime,
    by: str = "",
    file_name: str = "",
    replace: bool = False,
) -> Imported:
    """Takes the invoice of a month from a file. Twice is once: the same file is known by its
    digest.

    Raises RefusedError with every bad line and field, StandsError where another invoice of the
    issuer stands and `replace` is not said, InvoiceError where the month can't have one.
    """
    start = check_month(month, now)
    invoice, lines = invoice_csv.read(content, month)
    invoice.usd_per_unit = _usd_per_unit(invoice.currency, start, lines[0].line)
    invoice.file_name = "".join(filter(str.isprintable, file_name))[:200]
    invoice.imported_at = now
    invoice.imported_by = by
    wait_for_lock(LOCK)
    standing = Invoice.objects.filter(month=month, issuer=invoice.issuer).first()
    is_new = standing is None or standing.digest != invoice.digest
    if is_new:
        _store(invoice, lines, standing, replace=replace)
    replaced = is_new and standing is not None
    return Imported(invoice.rows, len(lines), _usd(invoice, lines), is_new, replaced)


def _usd(invoice: Invoice, lines: list[InvoiceLine]) -> Decimal:
    return EXACT.multiply(exact_sum(line.amount for line in lines), invoice.usd_per_unit)


def _store(
    invoice: Invoice, lines: list[InvoiceLine], standing: Invoice | None, *, replace: bool
) -> None:
    """The invoice with its lines, in place of the one that stands.

    Raises StandsError where there is one and nobody said that it is replaced.
    """
    if standing is not None and not replace:
        of = f" of {standing.issuer}" if standing.issuer else ""
        day: date = standing.imported_at.date()
        raise StandsError(
            f"An invoice{of} for {standing.month} stands since {day}: say that this one replaces"
            " it.",
            field="replace",
        )
    if standing is not None:
        standing.delete()
    invoice.save(force_insert=True)
    for line in lines:
        line.invoice = invoice
    InvoiceLine.objects.bulk_create(lines)
    record(
        "report.invoice", invoice.month, issuer=invoice.issuer, rows=invoice.rows, lines=len(lines)
    )


@transaction.atomic
def remove_invoice(invoice: Invoice) -> None:
    """Takes an invoice away again.

    What was booked of it stays, and is open the other way until it is withdrawn or booked back.
    """
    wait_for_lock(LOCK)
    record("report.invoice_remove", invoice.month, issuer=invoice.issuer)
    invoice.delete()


@transaction.atomic
def set_sku(sku: str, gpu_model: GPUModel | None, *, gpus_per_hour: int) -> None:
    """From now on lines of this SKU are that GPU model's, in all months; None = nobody's again.

    Raises InvoiceError.
    """
    if not sku or len(sku) > LONGEST_SKU or not sku.isprintable():
        raise InvoiceError(
            f"A SKU has 1 to {LONGEST_SKU} letters and no control characters.", field="sku"
        )
    if not 1 <= gpus_per_hour <= invoice_csv.MAX_GPUS:
        raise InvoiceError(f"One hour is of 1 to {invoice_csv.MAX_GPUS:,} GPUs.", field="gpus")
    wait_for_lock(LOCK)
    if gpu_model is None:
        InvoiceSKU.objects.filter(sku=sku).delete()
    else:
        InvoiceSKU.objects.update_or_create(
            sku=sku, defaults={"gpu_model": gpu_model, "gpus_per_hour": gpus_per_hour}
        )
    model = gpu_model.name if gpu_model else None
    record("report.sku", sku, gpu_model=model, gpus_per_hour=gpus_per_hour)


def check_month(name: str, now: datetime) -> datetime:
    """The beginning of a month that has begun. Raises InvoiceError."""
    try:
        return months.month(name, now=now, zone=zone()).interval.start
    except ValueError as error:
        raise InvoiceError(f"{error}".capitalize() + ".", field="month") from error


def _usd_per_unit(currency: str, moment: datetime, line: int) -> Decimal:
    try:
        return exchange.usd_per_unit(currency, moment)
    except RateError as error:
        where = "Settings, Rates, Other currencies"
        raise RefusedError([Fault(line, "currency", f"{error} Set it under {where}.")]) from error
