"""Reads a month's invoices and what the ledger has beside them."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db.models import Case, F, Max, QuerySet, When

from fleetwatch.accounts.selectors import zone
from fleetwatch.costs.models import Commitment
from fleetwatch.figures import boundaries, pricing
from fleetwatch.figures.totals import NOBODY
from fleetwatch.finance import commitments
from fleetwatch.finance.coverage import Covered
from fleetwatch.finance.gaps import BOOKED_PARTS, Counted, Gap
from fleetwatch.finance.kinds import KindTime, time_of_kinds
from fleetwatch.finance.reconciling import (
    COMMITTED,
    Bill,
    Booked,
    ByCommitted,
    Line,
    Owner,
    fingerprint,
    reconcile,
    total,
)
from fleetwatch.inventory.gpu_models import facts_for
from fleetwatch.inventory.selectors import present_models
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.sql import execute, read_statement
from fleetwatch.reports import months
from fleetwatch.reports.models import Invoice, InvoiceAdjustment, InvoiceLine, InvoiceSKU

CoveredLines = Sequence[tuple[Commitment, Covered]]
OWNED = "owned"
# by what a line is known to the mapping: its SKU, else the name of the GPU that it bills
_THING = Case(When(sku="", then=F("gpu_model")), default=F("sku"))
_ADJUSTED = read_statement("finance/sql/adjusted_owners.sql")


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """A month's invoices beside its ledger. No invoice: no lines, but those of what was booked.

    `compared`: the days of the ledger that are laid beside them, from the month's first on.
    """

    month: months.Month
    compared: Interval
    invoices: list[Invoice]
    lines: list[Line]
    total: Line
    fingerprint: str
    unpriced_ms: int  # GPU time of the ledger that has no rate: its dollars are all rate

    @property
    def not_delivered_usd(self) -> Decimal:
        """What is due by contract for GPUs that were not there; nothing without an invoice."""
        return pricing.exact_sum(line.gap.committed_usd for line in self.lines)

    @property
    def not_billed_usd(self) -> Decimal:
        """What of that no line of an invoice bills by the hour."""
        lines = (line for line in self.lines if line.kind == COMMITTED)
        return pricing.exact_sum(line.gap.committed_usd for line in lines)


def reconciliation(name: str, *, now: datetime) -> Reconciliation:
    """The month of that name. Raises ValueError where it is none, or no day of it is over."""
    month = months.month(name, now=now, zone=zone())
    invoices = list(Invoice.objects.filter(month=name).order_by("issuer"))
    compared = _compared(month.interval, invoices)
    booked = booked_by_key(name)
    lines: list[Line] = []
    unpriced_ms = 0
    if not invoices:
        lines = reconcile([], {}, {}, booked)
    else:
        times = time_of_kinds(compared)
        ledger, unpriced_ms = _ledger(compared, times)
        covered = commitments.coverage(compared, now=now, times=times).lines
        lines = reconcile(_bills(invoices), ledger, _missing(covered), booked, _contracts(covered))
    return Reconciliation(
        month, compared, invoices, lines, total(lines), fingerprint(lines), unpriced_ms
    )


def _compared(month: Interval, invoices: Iterable[Invoice]) -> Interval:
    """The month's days that can be on the invoices: files name none, and one that came while the
    month ran bills no day that was not over then.
    """
    newest = max((each.imported_at for each in invoices), default=month.end)
    until = boundaries.midnight(newest, zone())
    return Interval(month.start, until) if month.start < until < month.end else month


def newest_month() -> str | None:
    """The name of the newest month with an invoice; None: there is no invoice."""
    newest: str | None = Invoice.objects.aggregate(newest=Max("month"))["newest"]
    return newest


def bookings(month: str) -> QuerySet[InvoiceAdjustment]:
    """What was booked of the month's reconciliation, withdrawn or not, the newest first."""
    return InvoiceAdjustment.objects.filter(month=month).order_by("-booked_at", "-pk")


def booked_by_key(month: str) -> Booked:
    """Label and sum of what was booked of each line and not withdrawn."""
    booked: Booked = {}
    for row in bookings(month).filter(withdrawn_at__isnull=True):
        gap = Gap(**{name: getattr(row, name) for name in BOOKED_PARTS})
        _, before = booked.get(row.key, ("", Gap()))
        booked[row.key] = (row.label, before + gap)
    return booked


def skus() -> dict[str, InvoiceSKU]:
    """What is known of providers' SKUs."""
    return {each.sku: each for each in InvoiceSKU.objects.select_related("gpu_model")}


@dataclass(frozen=True, slots=True)
class SKU:
    """A SKU that the month's invoices bill, or a GPU name that the ledger does not have, and what
    is known of it; `gpu_model` "" = nothing. `suggested`: the model of the fleet that its name
    says.
    """

    sku: str
    description: str
    gpu_model: str
    gpus_per_hour: int
    suggested: str = ""


def billed_skus(month: str) -> list[SKU]:
    """What the month's invoices bill and the file names no GPU model of the fleet for, those that
    nobody named first, the dearest ahead.
    """
    present = set(present_models().values_list("name", flat=True))
    lines = InvoiceLine.objects.filter(invoice__month=month).exclude(gpu_model__in=present)
    rows = (
        lines.annotate(thing=_THING)
        .exclude(thing="")
        .values_list("thing")
        .annotate(dearest=Max("amount"), description=Max("description"), name=Max("gpu_model"))
        .order_by("-dearest", "thing")
    )
    named = {sku: (each.gpu_model.name, each.gpus_per_hour) for sku, each in skus().items()}
    billed = [
        SKU(sku, description, *named.get(sku, ("", 1)), suggested=_suggested(name or sku, present))
        for sku, _, description, name in rows
    ]
    return sorted(billed, key=lambda each: bool(each.gpu_model))


def _suggested(name: str, present: Collection[str]) -> str:
    """The fleet's model that a driver would call so; "" = none of them."""
    model = facts_for(name).name
    return model if model in present else ""


def _bills(invoices: list[Invoice]) -> list[Bill]:
    named = skus()
    lines = InvoiceLine.objects.filter(invoice__in=invoices).select_related("invoice")
    return [
        _bill(line, named.get(line.sku or line.gpu_model))
        for line in lines.order_by("invoice__issuer", "line", "pk")
    ]


def _bill(line: InvoiceLine, named: InvoiceSKU | None) -> Bill:
    """What somebody said of its SKU is stronger than what the file says."""
    gpus = named.gpus_per_hour if named and line.gpus_per_hour != 1 else line.gpus_per_hour
    gpu_hours = None
    if line.hours is not None and gpus is not None:
        gpu_hours = pricing.EXACT.multiply(line.hours, Decimal(gpus))
    return Bill(
        issuer=line.invoice.issuer,
        sku=line.sku,
        region=line.region,
        category=line.category,
        description=line.description,
        gpu_model=named.gpu_model.name if named else line.gpu_model,
        gpu_hours=gpu_hours,
        usd=pricing.EXACT.multiply(line.amount, line.invoice.usd_per_unit),
    )


def _ledger(interval: Interval, times: Iterable[KindTime]) -> tuple[dict[Owner, Counted], int]:
    """GPU time and exact dollars by GPU model, region and whether the node is owned, adjustments of
    closed hours included; unpriced ms.
    """
    sums: dict[Owner, Counted] = defaultdict(Counted)
    unpriced_ms = 0
    rows = [
        (
            time.kind.gpu_model,
            time.kind.region,
            time.kind.node_class == OWNED,
            time.usd_per_gpu_hour,
            sum(time.capacity_ms),
            sum(time.unobserved_ms),
        )
        for time in times
    ]
    rows += execute(_ADJUSTED, {"start": interval.start, "end": interval.end})
    for model, region, is_owned, rate, gpu_ms, unobserved_ms in rows:
        counted = Counted(gpu_ms, unobserved_ms, pricing.price([(gpu_ms, rate)]))
        sums[Owner(model or NOBODY, region, is_owned)] += counted
        if rate is None:
            unpriced_ms += gpu_ms
    return sums, unpriced_ms


def _missing(lines: CoveredLines) -> ByCommitted:
    """What commitments paid for GPUs that were not there, by GPU model and region."""
    return _summed((each, Counted(line.missing_ms, 0, line.missing_usd)) for each, line in lines)


def _contracts(lines: CoveredLines) -> ByCommitted:
    """What they cover of GPUs that were there, at the contract's price."""
    return _summed(
        (each, Counted(line.covered_ms, 0, line.used_usd + line.unheld_usd)) for each, line in lines
    )


def _summed(several: Iterable[tuple[Commitment, Counted]]) -> ByCommitted:
    sums: ByCommitted = defaultdict(Counted)
    for commitment, counted in several:
        sums[commitment.gpu_model.name, commitment.region] += counted
    return sums
