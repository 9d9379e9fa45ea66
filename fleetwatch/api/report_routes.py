"""Reports, commitments and invoices in the read API: what a month said, what was committed to and
used, and what was billed beside the ledger.
"""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any

from django.db.models import Sum
from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema
from pydantic import Field, WithJsonSchema

from fleetwatch.accounts.audit import record
from fleetwatch.accounts.selectors import zone
from fleetwatch.api.answer_types import Answer, Joined, NameOf, TextOrNone, Usd, fields_of
from fleetwatch.api.request_period import ALWAYS, RequestError, asked, required
from fleetwatch.api.schemas import Listed, ListedInPeriod, Name, Paging, PeriodAsked
from fleetwatch.api.vocabulary import DifferenceKind, ReportKind
from fleetwatch.figures.pricing import EXACT
from fleetwatch.figures.totals import ZERO
from fleetwatch.finance.commitments import commitments as every_commitment
from fleetwatch.finance.commitments import coverage
from fleetwatch.finance.coverage import Above, missing_usd
from fleetwatch.finance.reconciliation import reconciliation
from fleetwatch.reports.models import Invoice, Report
from fleetwatch.reports.monthly import FLEET, STATEMENT
from fleetwatch.reports.months import name_at
from fleetwatch.reports.selectors import visible

router = Router(tags=["reports"])

LARGEST_ID = 2**63 - 1


class ReportRow(Schema):
    """One version of a report.

    `subject` is the team's slug of a statement, "(none)" and "(unmapped)" for jobs without a team.
    """

    id: int
    kind: ReportKind
    subject: str
    start: datetime
    end: datetime
    version: int
    computed_at: datetime
    cost_usd: float | None
    content: Any = None


class ReportPage(Listed[ReportRow]):
    """Computed reports that overlap the period, the newest first.

    What statements and fleet reports say is at /reports/{id}.
    """


class ReportDetail(ReportRow):
    """Amounts in `content` are decimal strings: exact.

    `inputs` is the digest of what it was first computed from.
    """

    inputs: str


@router.get("/reports", operation_id="listReports", response=ReportPage)
def reports(
    request: HttpRequest,
    period: PeriodAsked,
    paging: Paging,
    kind: ReportKind | None = None,
    subject: Name = None,
) -> Answer:
    """Computed reports of periods that overlap the one asked for, every version."""
    wanted = asked(request)
    overlapping = visible().filter(start__lt=wanted.interval.end, end__gt=wanted.interval.start)
    asked_for = {"kind": kind, "subject": subject}
    named = {name: value for name, value in asked_for.items() if value is not None}
    reports = overlapping.filter(**named).order_by("-end", "-pk").defer("content")
    return wanted.listed(reports, paging.limit, _small)


@router.get("/reports/{int:report_id}", operation_id="getReport", response=ReportDetail)
def report(request: HttpRequest, report_id: int) -> Report:
    """One report and what it says."""
    row = visible().filter(pk=report_id).first() if report_id <= LARGEST_ID else None
    report = required(row, "report", field="report_id")
    # it is as whole as its file, and never changes: nobody needs to ask for it again and again
    record(
        "export.report",
        request.path,
        kind=report.kind,
        of=report.subject,
        version=report.version,
        start=report.start.isoformat(),
        end=report.end.isoformat(),
    )
    return report


def _small(report: Report) -> Joined:
    """What it says, where that is a page of text and no month of jobs."""
    return Joined(report, content=None) if report.kind in (FLEET, STATEMENT) else Joined(report)


class CommittedTime(Schema):
    """GPU time and dollars of a commitment in the period. used + unheld + missing = committed, in
    both.

    `used`: a job held it. `unheld`: it was there and no job held it; its time is in the ledger's
    free, orphaned, unavailable and unobserved. `missing`: no GPU in the ledger; its dollars are in
    no figure of the ledger. `rate_book_usd` is what the rate book says of used and unheld time.
    """

    committed_ms: int
    used_ms: int
    unheld_ms: int
    missing_ms: int
    committed_usd: Usd
    used_usd: Usd
    unheld_usd: Usd
    missing_usd: Usd
    rate_book_usd: Usd
    coverage: float | None
    utilisation: float | None


class CommitmentRow(Schema):
    """One commitment; `in_period` is null where none of the hours asked for is both committed and
    known to the ledger.

    The price is per GPU-hour or, for all GPUs, per month: the other one is null. "pool",
    "node_class" and "region" narrow it.
    """

    id: int
    name: str
    gpu_model: NameOf
    pool: TextOrNone
    node_class: TextOrNone
    region: TextOrNone
    gpus: int
    price_per_gpu_hour: float | None
    amount_per_month: float | None
    currency: str
    valid_from: datetime
    valid_to: datetime | None
    source: str
    in_period: CommittedTime | None


class AboveRow(fields_of(Above)):  # type: ignore[misc]
    """GPU time of a model that a commitment could have covered and none did, at its own rates: it
    is in the ledger's dollars.
    """


class CommitmentPage(ListedInPeriod[CommitmentRow]):
    """All commitments. Their figures are of counted_from to counted_to: posted hours that the
    ledger knows.

    The ledger's dollars of the period and `missing_usd` are what is paid.
    """

    counted_from: datetime | None
    counted_to: datetime | None
    missing_usd: float
    above: list[AboveRow]


@router.get("/commitments", operation_id="listCommitments", response=CommitmentPage, tags=["costs"])
def commitments(request: HttpRequest, period: PeriodAsked, paging: Paging) -> Answer:
    """Every commitment there is or was, with what of it was used, there and missing in the
    period.
    """
    wanted = asked(request)
    covered = coverage(wanted.interval, now=timezone.now())
    by_id = {commitment.pk: line for commitment, line in covered.lines}
    counted = covered.interval
    return wanted.answer(
        counted_from=counted and counted.start,
        counted_to=counted and counted.end,
        missing_usd=float(missing_usd(by_id.values())),
        above=covered.above,
        **wanted.listed(
            every_commitment(),
            paging.limit,
            lambda each: Joined(each, in_period=by_id.get(each.pk)),
        ),
    )


Month = Annotated[str, WithJsonSchema({"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}$"})]


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


class InvoicePage(Listed[InvoiceRow]):
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


class InvoiceMonth(Listed[DifferenceLine]):
    """A month's invoices beside its ledger, of the days that were over when the newest invoice was
    imported; without an invoice there are no lines. Lines sum to the total.

    `end` is where the ledger's side ends, `is_over` the month's. `unpriced_ms` is GPU time of the
    ledger without a rate.
    """

    month: str = Field(alias="name")
    start: datetime = Field(alias="compared.start")
    end: datetime = Field(alias="compared.end")
    is_over: bool
    issuers: list[str]
    unpriced_ms: int
    total: Difference


@router.get("/invoices", operation_id="listInvoices", response=InvoicePage)
def invoices(request: HttpRequest, period: PeriodAsked, paging: Paging) -> Answer:
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
    paging: Paging,
) -> Joined:
    """One month's invoices beside the ledger: the difference by rate, hours and unobserved time."""
    wanted = asked(request)
    try:
        reconciled = reconciliation(month, now=timezone.now())
    except ValueError as error:
        raise RequestError(str(error), field="month", status=404) from error
    return Joined(
        reconciled,
        reconciled.month,
        issuers=[invoice.issuer for invoice in reconciled.invoices],
        **wanted.listed(reconciled.lines, paging.limit),
    )
