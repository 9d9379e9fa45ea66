"""Invoices in the read API: which were imported, and a month's beside the ledger, line by line."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Annotated

from django.db.models import Sum
from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema
from pydantic import Field, WithJsonSchema

from fleetwatch.accounts.selectors import zone
from fleetwatch.api import schemas
from fleetwatch.api.answer_types import Answer, TextOrNone, Usd
from fleetwatch.api.request_period import ALWAYS, RequestError, asked
from fleetwatch.api.vocabulary import DifferenceKind
from fleetwatch.figures.pricing import EXACT
from fleetwatch.figures.totals import ZERO
from fleetwatch.finance.reconciliation import reconciliation
from fleetwatch.reports.models import Invoice
from fleetwatch.reports.months import name_at

Month = Annotated[str, WithJsonSchema({"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}$"})]

router = Router(tags=["reports"])


class InvoiceRow(Schema):
    """An imported invoice: one per month and issuer ("" = the file names none).

    One unit of `currency` is `usd_per_unit` dollars.
    """

    id: int
    month: str
    issuer: str
    form: str
    file_name: str
    currency: str
    usd_per_unit: float
    rows: int
    billed_usd: Usd
    imported_at: datetime
    imported_by: str

    @staticmethod
    def resolve_billed_usd(invoice: Invoice) -> Decimal:
        amount: Decimal = getattr(invoice, "amount", None) or ZERO
        return EXACT.multiply(amount, invoice.usd_per_unit)


class InvoicePage(schemas.Listed[InvoiceRow]):
    """Imported invoices, the newest month first.

    What one month's say beside the ledger is at /invoices/{month}.
    """


class Difference(Schema):
    """billed − ledger = difference = committed + unobserved + hours + rate + other, in dollars.

    `committed`: in the fleet's report already, as commitments that were not delivered.
    `unobserved`: hours that the ledger counts, nobody observed and nobody billed. `hours`: what
    else differs in hours, at the ledger's price. `rate`: the billed hours at the invoice's price
    instead of the ledger's. `other`: in one of the two books alone. `open_usd` is what is not
    booked yet.
    """

    ledger_ms: int
    unobserved_ms: int
    billed_usd: Usd
    ledger_usd: Usd
    difference_usd: Usd = Field(alias="gap.difference_usd")
    committed_usd: Usd = Field(alias="gap.committed_usd")
    unobserved_usd: Usd = Field(alias="gap.unobserved_usd")
    hours_usd: Usd = Field(alias="gap.hours_usd")
    rate_usd: Usd = Field(alias="gap.rate_usd")
    other_usd: Usd = Field(alias="gap.other_usd")
    open_usd: Usd = Field(alias="open.open_usd")


class DifferenceLine(Difference):
    """`kind`: matched (in both books), unmatched (billed alone), unbilled (in the ledger alone),
    committed, booked.

    `billed_ms` is null where nothing is billed by the hour; `gpu_model` and `region` are null where
    the line is not of one.
    """

    key: str
    kind: DifferenceKind
    label: str
    note: str
    gpu_model: TextOrNone
    region: TextOrNone
    billed_ms: int | None


class InvoiceMonth(schemas.Listed[DifferenceLine]):
    """A month's invoices beside its ledger, of the days that are over; without an invoice there are
    no lines. Lines sum to the total.

    `unpriced_ms` is GPU time of the ledger without a rate.
    """

    month: str
    start: datetime
    end: datetime
    is_over: bool
    issuers: list[str]
    unpriced_ms: int
    total: Difference


@router.get("/invoices", operation_id="listInvoices", response=InvoicePage)
def invoices(request: HttpRequest, period: schemas.PeriodAsked, paging: schemas.Paging) -> Answer:
    """Every invoice that stands, or those of months of which a part lies in a period."""
    wanted = asked(request, whole=ALWAYS)
    last = wanted.interval.end - timedelta(microseconds=1)
    between = [name_at(moment, zone()) for moment in (wanted.interval.start, last)]
    invoices = Invoice.objects.filter(month__range=between).annotate(amount=Sum("lines__amount"))
    return wanted.listed(invoices.order_by("-month", "issuer"), paging.limit)


@router.get("/invoices/{month}", operation_id="getInvoiceMonth", response=InvoiceMonth)
def invoice_month(
    request: HttpRequest,
    month: Month,
    paging: schemas.Paging,
) -> Answer:
    """One month's invoices beside the ledger: the difference by rate, hours and unobserved time."""
    wanted = asked(request)
    try:
        reconciled = reconciliation(month, now=timezone.now())
    except ValueError as error:
        raise RequestError(str(error), field="month", status=404) from error
    return {
        "month": reconciled.month.name,
        "start": reconciled.month.interval.start,
        "end": reconciled.month.interval.end,
        "is_over": reconciled.month.is_over,
        "issuers": [invoice.issuer for invoice in reconciled.invoices],
        "unpriced_ms": reconciled.unpriced_ms,
        "total": reconciled.total,
        **wanted.listed(reconciled.lines, paging.limit),
    }
