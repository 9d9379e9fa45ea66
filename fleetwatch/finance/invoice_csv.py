"""Invoices as CSV: a file as it came in becomes lines of one invoice, not yet stored, or a list of
what is wrong with it by line and field.

Two forms, told apart by their columns: FOCUS 1.2 (https://focus.finops.org) and a plain one. Rows
that name the same SKU, region, kind of charge and GPU model are one line.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal

from fleetwatch.figures.pricing import EXACT
from fleetwatch.figures.totals import ZERO
from fleetwatch.lib import amounts, csv_rows
from fleetwatch.lib.csv_rows import Cells, Fault, FieldError, Form
from fleetwatch.reports.models import InvoiceLine

MAX_BYTES = 20_000_000
MAX_ROWS = 200_000
MAX_LINES = 5_000
MAX_TEXT = {"sku": 200, "region": 63, "gpu_model": 100, "description": 300, "issuer": 100}
MAX_AMOUNT = Decimal(10**12)  # also of hours
MAX_GPUS = 100_000
FINEST_AMOUNT = Decimal("1e-12")
FINEST_HOURS = Decimal("1e-9")

CSV = "csv"
FOCUS = "focus"
CATEGORIES = ("Usage", "Purchase", "Tax", "Credit", "Adjustment")
COLUMNS = (
    "month",
    "issuer",
    "sku",
    "description",
    "category",
    "gpu_model",
    "region",
    "gpu_hours",
    "amount",
    "currency",
)
# what a line says -> the column of FOCUS that has it
FOCUS_COLUMNS = {
    "amount": "BilledCost",
    "currency": "BillingCurrency",
    "month": "BillingPeriodStart",
    "category": "ChargeCategory",
    "issuer": "InvoiceIssuerName",
    "sku": "SkuId",
    "region": "RegionId",
    "description": "ChargeDescription",
}
QUANTITIES = (("ConsumedQuantity", "ConsumedUnit"), ("PricingQuantity", "PricingUnit"))
DETAILS = "SkuPriceDetails"
FOCUS_READ = (*FOCUS_COLUMNS.values(), *QUANTITIES[0], *QUANTITIES[1], DETAILS)
# units that are hours of something, by their FOCUS spellings; a GPU-hour is of one GPU
_HOURS = {"hours": None, "hour": None, "instance-hours": None, "gpu-hours": 1, "gpu-hour": 1}
_PLAIN_FORM = Form(
    what="charge",
    columns=COLUMNS,
    needed=("amount",),
    one_of=(("sku", "gpu_model", "description"),),
    max_bytes=MAX_BYTES,
    max_rows=MAX_ROWS,
)
_FOCUS_FORM = replace(
    _PLAIN_FORM, columns=FOCUS_READ, needed=FOCUS_READ[:4], one_of=(), is_ours=False
)


@dataclass(frozen=True, slots=True)
class Read:
    """A whole invoice as its file has it."""

    form: str
    issuer: str
    currency: str
    rows: int
    lines: list[InvoiceLine]


@dataclass(frozen=True, slots=True)
class _Charge:
    """One row of the file; what has to be the same in all of them beside it."""

    line: InvoiceLine
    form: str
    issuer: str
    currency: str
    month: str  # "" = not said


def read(content: bytes, month: str) -> Read:
    """The invoice of that month ("2026-10").

    Raises RefusedError with every fault found, at most MAX_FAULTS.
    """
    charges, faults = csv_rows.read(content, [_FOCUS_FORM, _PLAIN_FORM], _parsed)
    lines = _summed(charge.line for charge in charges)
    faults += [fault for charge in charges for fault in _differences(charge, charges[0], month)]
    if len(lines) > MAX_LINES:
        text = (
            f"There are more than {MAX_LINES:,} different lines in it: leave out what are no GPUs."
        )
        faults.append(Fault(1, "", text))
    csv_rows.refuse(faults)
    return Read(charges[0].form, charges[0].issuer, charges[0].currency, len(charges), lines)


def _parsed(form: Form, line: int, cells: Cells) -> _Charge:
    if form is _PLAIN_FORM:
        return _plain(line, cells)
    try:
        return _focus(line, cells)
    except FieldError as error:
        raise FieldError(FOCUS_COLUMNS.get(error.field, error.field), str(error)) from error


def _differences(charge: _Charge, first: _Charge, month: str) -> Iterator[Fault]:
    """A file is one invoice: of one month, one issuer and one currency."""
    columns = FOCUS_COLUMNS if charge.form == FOCUS else {}
    if charge.month not in ("", month):
        text = f"It is of {charge.month[:20]}, and this is the invoice of {month}."
        yield Fault(charge.line.line, columns.get("month", "month"), text)
    for field in ("issuer", "currency"):
        here = getattr(charge, field)
        before = getattr(first, field)
        if here != before:
            text = f"{here[:40]!r} here and {before[:40]!r} before: a file is one invoice."
            yield Fault(charge.line.line, columns.get(field, field), text)


def _summed(lines: Iterable[InvoiceLine]) -> list[InvoiceLine]:
    """Those of the same thing as one; a SKU names a thing, whatever is said of it."""
    sums: dict[tuple[object, ...], InvoiceLine] = {}
    for line in lines:
        description = "" if line.sku else line.description
        thing = (line.sku, description, line.region, line.category, line.gpu_model)
        first = sums.setdefault((*thing, line.gpus_per_hour, line.hours is None), line)
        if first is line:
            continue
        first.amount = EXACT.add(first.amount, line.amount)
        if line.hours is not None:
            first.hours = EXACT.add(first.hours or ZERO, line.hours)
    return list(sums.values())


def _plain(number: int, cells: Cells) -> _Charge:
    line = InvoiceLine(line=number, gpus_per_hour=1)
    if cells["gpu_hours"]:
        line.hours = _number(cells, "gpu_hours", FINEST_HOURS)
    line.gpu_model = _text(cells, "gpu_model")
    usual = {
        "category": cells["category"].capitalize() or "Usage",
        "currency": cells["currency"] or "USD",
    }
    charge = _charge(line, {**cells, **usual}, CSV)
    if not (line.sku or line.gpu_model or line.description):
        raise FieldError("sku", "What is charged? A sku, a gpu_model or a description, please.")
    return charge


def _focus(number: int, cells: Cells) -> _Charge:
    given = {name: "" if cells[name].lower() == "null" else cells[name] for name in FOCUS_READ}
    ours = {name: given[column] for name, column in FOCUS_COLUMNS.items()}
    if not ours["month"]:
        raise FieldError("month", "Of which month is it? Like 2026-10-01T00:00:00Z.")
    ours["month"] = ours["month"][:7]
    line = InvoiceLine(line=number)
    _read_details(line, given[DETAILS])
    _read_hours(line, given)
    return _charge(line, ours, FOCUS)


def _charge(line: InvoiceLine, cells: Cells, form: str) -> _Charge:
    """The line with what both forms say alike."""
    line.category = cells["category"]
    if line.category not in CATEGORIES:
        raise FieldError("category", f"One of {', '.join(CATEGORIES)}, not {line.category[:40]!r}.")
    if line.category != "Usage":
        line.hours = None
    line.sku = _text(cells, "sku")
    line.region = _text(cells, "region")
    line.description = _sentence(cells["description"])
    line.amount = _number(cells, "amount", FINEST_AMOUNT)
    return _Charge(line, form, _text(cells, "issuer"), _currency(cells["currency"]), cells["month"])


def _read_hours(line: InvoiceLine, cells: Cells) -> None:
    """The hours that were consumed, else priced, and of how many GPUs one is, where the unit says
    it.
    """
    for quantity, unit in QUANTITIES:
        name = cells[unit].lower().replace(" ", "-")
        if name in _HOURS and cells[quantity]:
            line.hours = _number(cells, quantity, FINEST_HOURS)
            line.gpus_per_hour = _HOURS[name] or line.gpus_per_hour
            return


def _read_details(line: InvoiceLine, text: str) -> None:
    """GPU model and number of GPUs, where the SKU's details have them: GpuCount is FOCUS's,
    x_GpuModel our own export's.
    """
    try:
        details = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        details = None
    if not isinstance(details, dict):
        raise FieldError(DETAILS, "This is no JSON object.")
    model = details.get("x_GpuModel")
    gpus = details.get("GpuCount")
    if type(gpus) is int and 1 <= gpus <= MAX_GPUS:
        line.gpus_per_hour = gpus
    if isinstance(model, str):
        line.gpu_model = _checked(DETAILS, model, MAX_TEXT["gpu_model"])


def _currency(text: str) -> str:
    code = text.upper()
    if not re.fullmatch("[A-Z]{3}", code):
        raise FieldError("currency", f"A currency has three letters, like USD, not {text[:40]!r}.")
    return code


def _text(cells: Cells, field: str) -> str:
    return _checked(field, cells[field], MAX_TEXT[field])


def _checked(field: str, text: str, longest: int) -> str:
    if len(text) > longest or not text.isprintable():
        raise FieldError(field, f"At most {longest} letters and no control characters, please.")
    return text


def _sentence(text: str) -> str:
    """What a provider wrote for people: cut, and without line breaks and the like."""
    shown = text[: MAX_TEXT["description"]]
    return "".join(letter if letter.isprintable() else " " for letter in shown).strip()


def _number(cells: Cells, field: str, finest: Decimal) -> Decimal:
    number = amounts.number(cells[field])
    if number is None or abs(number) > MAX_AMOUNT:
        raise FieldError(field, f"A number like 1234.56, please, not {cells[field][:40]!r}.")
    return number.quantize(finest)
