"""A month's invoice beside the ledger: everybody reads it; admins import it, say what SKUs are,
book and withdraw.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, TypeVar, cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from fleetwatch.accounts.models import User
from fleetwatch.accounts.permissions import Right, needs
from fleetwatch.accounts.selectors import zone
from fleetwatch.budgets.selectors import running_month
from fleetwatch.dashboard import numbers
from fleetwatch.dashboard.adjusted import adjusted
from fleetwatch.dashboard.forms.asked import Asked
from fleetwatch.dashboard.invoice_lines import PrintedLine, above_contract_usd, printed_lines
from fleetwatch.dashboard.parameters import takes
from fleetwatch.dashboard.period import Period, read_period
from fleetwatch.dashboard.showing import CSV, Context, existing, page
from fleetwatch.figures.pricing import CENT, exact_sum, usd
from fleetwatch.finance import bookings, invoices, reconciliation
from fleetwatch.finance.invoice_csv import COLUMNS, FOCUS_READ, MAX_BYTES, MAX_GPUS, MAX_ROWS
from fleetwatch.finance.invoices import InvoiceError
from fleetwatch.finance.reconciling import Line
from fleetwatch.inventory.models import GPUModel
from fleetwatch.inventory.selectors import present_models
from fleetwatch.lib.csv_files.csv_rows import RefusedError
from fleetwatch.lib.intervals import Interval
from fleetwatch.reports import by_contract
from fleetwatch.reports.exports.files import to_csv
from fleetwatch.reports.models import Invoice, InvoiceAdjustment, Report
from fleetwatch.reports.months import in_words
from fleetwatch.reports.selectors import figures, newest_fleet

MAX_LINES = 200  # shown, with their forms
NO_MODEL = "H100 SXM"  # of an example, where no GPU is there yet
LARGEST_ID = 2**63 - 1

# why the books differ, in words
REASONS = {
    "unobserved_usd": (
        "unobserved",
        "hours that the ledger counts, nobody observed and the invoice does not bill",
    ),
    "hours_usd": ("hours", "hours only one side has, at the ledger’s price"),
    "rate_usd": ("rate", "the billed hours at the invoice’s price instead of the ledger’s"),
    "committed_usd": (
        "committed",
        "due by contract for GPUs that were not delivered; in the fleet’s report already",
    ),
    "other_usd": ("unmatched", "lines only one side has"),
}

# why a line is not ticked by itself, by its kind: beside the line, and what to do about it
WHY_NOT = {
    "unmatched": (
        "not in the ledger",
        "nothing in the ledger stands for it; tick it to have it in the fleet’s report",
    ),
    "unbilled": (
        "on no invoice",
        "no invoice bills it; tick it to take it out of the fleet’s report",
    ),
    "committed": (
        "in the report already",
        "the fleet’s report counts it as due by contract; tick it to take it out, where an"
        " unmatched line bills it or the provider never will",
    ),
    "booked": ("its line is gone", "tick it to take the booking back"),
}
ABOVE = (
    "billed above contract",
    "ask the issuer to credit it first; tick it to book it as it is",
)
TWICE = (
    "several issuers bill the same hours",
    "look whether one of the invoices is of other GPUs or a duplicate, and remove that one",
)
LARGE = (
    "more than 5 % apart",
    "look for missing days, a wrong SKU or a wrong rate first",
)
TINY = ("less than a cent", "there is nothing to book")

Row = TypeVar("Row", Invoice, InvoiceAdjustment)


@require_GET
@login_required
@never_cache
@takes()
def invoice(request: HttpRequest, month: str) -> HttpResponse:
    return _page(request, month)


@require_GET
@login_required
@never_cache
@takes()
def newest(request: HttpRequest) -> HttpResponse:
    """Leads to the newest month with an invoice, or the running one where none was imported."""
    running = f"{running_month(read_period(request).now).first:%Y-%m}"
    return redirect("invoice", reconciliation.newest_month() or running)


@require_GET
@needs(Right.MONEY)
@takes()
def example(_: HttpRequest, month: str) -> HttpResponse:
    """A file to fill in: all columns, and a usage line of each GPU model that is there."""
    same = {"month": month, "issuer": "example provider", "category": "Usage", "currency": "USD"}
    models = [model.name for model in present_models()] or [NO_MODEL]
    lines = [
        same | {"sku": f"sku-{number}", "gpu_model": name, "gpu_hours": "720", "amount": "1512.00"}
        for number, name in enumerate(models, 1)
    ]
    text = to_csv(COLUMNS, [[line.get(column, "") for column in COLUMNS] for line in lines])
    headers = {"Content-Disposition": 'attachment; filename="fleetwatch-invoice.csv"'}
    return HttpResponse(text, content_type=CSV, headers=headers)


@require_POST
@needs(Right.MONEY)
@never_cache
def change(request: HttpRequest, month: str, action: str) -> HttpResponse:
    """One change; what can't be taken comes back with the page and what was sent."""
    make = existing(_CHANGES.get(action))
    user = cast("User", request.user)
    asked = _Asked(request.POST, user, read_period(request).now, request, month)
    try:
        messages.success(request, make(asked))
    except RefusedError as error:
        return _page(request, month, refused={"refused": error, **_sent(asked, action)})
    except InvoiceError as error:
        refused = {
            "errors": {error.field: str(error)},
            **_sent(asked, action),
            **({"ticked": request.POST.getlist("line")} if action == "book" else {}),
        }
        return _page(request, month, refused=refused)
    return redirect("invoice", month)


@dataclass(frozen=True, slots=True)
class _Asked(Asked):
    """A form as it was sent, for which month."""

    request: HttpRequest
    month: str

    def row_of_month(self, rows: type[Row]) -> Row:
        """The month's row of the form's number. Raises Http404."""
        text = self.text("id")
        number = min(int(text[:20]), LARGEST_ID) if text.isascii() and text.isdecimal() else 0
        return get_object_or_404(rows, pk=number, month=self.month)


def _sent(asked: _Asked, action: str) -> Context:
    """What was sent, to be shown again: a browser keeps no file, so its name alone."""
    file = asked.request.FILES.get("file")
    return {"action": action, "sent": asked.request.POST, "file_name": file.name if file else ""}


def _import(asked: _Asked) -> str:
    file = asked.request.FILES.get("file")
    if file is None:
        raise InvoiceError("Which file is it? A CSV file, please.", field="file")
    done = invoices.import_invoice(
        bytes(file.read(MAX_BYTES + 1)),
        asked.month,
        now=asked.now,
        by=asked.by,
        file_name=file.name or "",
        replace=asked.text("replace") == "on",
    )
    if not done.is_new:
        return "This very file was imported already."
    return (
        f"{'Replaced' if done.replaced else 'Imported'}: {done.rows:,}"
        f" row{'' if done.rows == 1 else 's'}, {numbers.cents(done.usd)}."
    )


def _remove(asked: _Asked) -> str:
    invoices.remove_invoice(asked.row_of_month(Invoice))
    return "The invoice was removed."


def _sku(asked: _Asked) -> str:
    sku = asked.text("sku")
    name = asked.text("gpu_model")
    gpus = asked.text("gpus")
    model = GPUModel.objects.filter(name=name).first() if name else None
    if name and model is None:
        raise InvoiceError("Choose a GPU model, please.", field="sku")
    if not gpus.isascii() or not gpus.isdecimal():
        raise InvoiceError(f"One hour is of 1 to {MAX_GPUS:,} GPUs.", field="gpus")
    invoices.set_sku(sku, model, gpus_per_hour=int(gpus[:9]))
    return f"{sku} is {gpus} × {name}." if model else f"{sku} is no GPU of ours."


def _book(asked: _Asked) -> str:
    made = bookings.book(
        asked.month,
        asked.request.POST.getlist("line"),
        seen=asked.text("seen"),
        reason=asked.text("reason"),
        by=asked.by,
        now=asked.now,
    )
    lines = f"{len(made)} line{'' if len(made) == 1 else 's'}"
    return (
        f"Booked {lines} in the report of {made[0].booked_in}: compute it now, or it comes with the"
        " next one."
    )


def _withdraw(asked: _Asked) -> str:
    bookings.withdraw(asked.row_of_month(InvoiceAdjustment), by=asked.by, now=asked.now)
    return "The booking was withdrawn; it stays readable here."


_CHANGES: dict[str, Callable[[_Asked], str]] = {
    "import": _import,
    "remove": _remove,
    "sku": _sku,
    "book": _book,
    "withdraw": _withdraw,
}


_NOTHING_REFUSED: Mapping[str, Any] = {
    "action": "",
    "errors": {},
    "sent": {},
    "refused": None,
}


def _page(
    request: HttpRequest, month: str, *, refused: Mapping[str, Any] | None = None
) -> HttpResponse:
    period = read_period(request)
    context = {
        **_NOTHING_REFUSED,
        **_reconciled(month, period, (refused or {}).get("ticked")),
        "skus": reconciliation.billed_skus(month)[:MAX_LINES],
        "gpu_models": present_models(),
        "bookings": reconciliation.bookings(month)[:MAX_LINES],
        "columns": COLUMNS,
        "focus_columns": FOCUS_READ,
        "max_bytes": MAX_BYTES,
        "max_rows": MAX_ROWS,
        **(refused or {}),
    }
    return page(request, period, "dashboard/invoice.html", "reports", context)


def _reconciled(month: str, period: Period, ticked: Collection[str] | None) -> Context:
    """The month's invoices beside its ledger. Raises Http404 for what is no month."""
    try:
        reconciled = reconciliation.reconciliation(month, now=period.now)
    except ValueError as error:
        raise Http404(str(error)) from error
    ledger_usd = reconciled.total.ledger_usd
    since = adjusted(reconciled.compared, ledger_usd)
    every = printed_lines(reconciled.lines)
    sums = _sums(every)
    shown = _shown(every, ticked)
    return {
        "month": reconciled.month,
        "month_in_words": in_words(reconciled.month.name),
        "adjusted": since and since.of_ledger(ledger_usd),
        "reconciled": reconciled,
        "is_part": not _is_whole(reconciled),
        "billed_until": _last_day(reconciled.compared),
        **_counted_in_report(
            newest_fleet(reconciled.month.interval.start), sums["by_contract_usd"]
        ),
        "sums": sums,
        "hours": _hours(reconciled.lines),
        **shown,
    }


def _counted_in_report(fleet: Report | None, bill_usd: Decimal) -> Context:
    """The fleet's report, what it counts of commitments that were not delivered, what it says is
    due by contract, and how much more the bill is by contract; None of one without commitments, or
    from before they were in it.
    """
    content = fleet.content if fleet else {}
    due_usd = by_contract.sums(content).contract_usd if content.get("commitments") else None
    return {
        "fleet": fleet,
        "counted_usd": figures(content).get("not_delivered_usd"),
        "due_usd": due_usd,
        "apart_usd": None if due_usd is None else bill_usd - usd(due_usd, CENT),
    }


def _is_whole(reconciled: reconciliation.Reconciliation) -> bool:
    """Whether the whole month is compared."""
    return reconciled.month.is_over and reconciled.compared == reconciled.month.interval


def _last_day(interval: Interval) -> date:
    """The last day of the interval, in the organisation's zone."""
    return (interval.end - timedelta(microseconds=1)).astimezone(zone()).date()


def _shown(every: Sequence[PrintedLine], ticked: Collection[str] | None) -> Context:
    """The first of the lines, and which of them are booked."""
    lines = every[:MAX_LINES]
    return {
        "lines": lines,
        "left_off": len(every) - len(lines),
        **_to_book([each for each in lines if each.line.is_open], ticked),
    }


def _sums(lines: Sequence[PrintedLine]) -> Context:
    """In cents the ledger's dollars and the reasons, which sum to the invoice's, and what of the
    difference is in no report yet: the sums of what the lines print. What neither book has is none
    of it, and in the fleet's report already. By contract the bill is what was billed, less what of
    it is above contract, and what is due and was not billed.
    """
    compared = [line for line in lines if not line.is_beside_both]
    reasons = {name: exact_sum(line.reasons[name] for line in compared) for name in REASONS}
    columns = ("ledger_usd", "billed_usd", "difference_usd", "booked_usd", "open_usd")
    beside_usd = exact_sum(line.reasons["committed_usd"] for line in lines if line.is_beside_both)
    above_usd = usd(above_contract_usd(line.line for line in lines), CENT)
    billed_usd = exact_sum(line.billed_usd for line in compared)
    return {
        "reasons": [(*REASONS[name], amount) for name, amount in reasons.items() if amount],
        "committed_usd": reasons["committed_usd"],
        "beside_usd": beside_usd,
        "above_contract_usd": above_usd,
        "by_contract_usd": billed_usd - above_usd + beside_usd,
        **{name: exact_sum(getattr(line, name) for line in compared) for name in columns},
    }


def _hours(lines: Sequence[Line]) -> Context:
    """GPU time that is billed by the hour, and the ledger's of the same lines; empty where none
    is.
    """
    pairs = [(line.billed_ms, line.ledger_ms) for line in lines if line.billed_ms is not None]
    if not pairs:
        return {}
    billed_ms = sum(billed for billed, _ in pairs)
    ledger_ms = sum(counted for _, counted in pairs)
    return {"billed_ms": billed_ms, "ledger_ms": ledger_ms}


def _why_not(line: Line) -> tuple[str, str]:
    """Why the line is not ticked by itself, where it is not, and what to do about it."""
    if line.kind in WHY_NOT:
        return WHY_NOT[line.kind]
    if line.is_billed_twice:
        return TWICE
    if line.is_above_contract:
        return ABOVE
    return TINY if line.is_plausible else LARGE


def _to_book(lines: Sequence[PrintedLine], asked: Collection[str] | None) -> Context:
    """The lines that can be booked; ticked are those that were asked for, else the plausible ones
    of a cent or more of which nothing is to be asked of the issuer first, with their sum.
    """
    ticked = [each for each in lines if _is_ticked(each.line, asked)]
    unticked = {} if asked else {e.line.key: _why_not(e.line) for e in lines if e not in ticked}
    return {
        "can_book": bool(lines),
        "ticked": [each.line.key for each in ticked],
        "unticked": unticked,
        "why_not": sorted(set(unticked.values())),
        "book_usd": exact_sum(each.open_usd for each in ticked),
    }


def _is_ticked(line: Line, asked: Collection[str] | None) -> bool:
    if asked is not None:
        return line.key in asked
    return (
        line.is_plausible and not line.is_above_contract and numbers.has_cents(line.open.open_usd)
    )
