"""Invoices as CSV: a file as it came in becomes lines of one invoice, or a list of what is wrong
with it by line and field. Pure.

Two forms, told apart by their columns: FOCUS 1.2 (https://focus.finops.org) and a plain one. Rows
that name the same SKU, region, kind of charge and GPU model are one line.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal

from fleetwatch.figures.pricing import EXACT
from fleetwatch.figures.totals import ZERO
from fleetwatch.lib import amounts, csv_rows
from fleetwatch.lib.csv_rows import Cells, Fault, FieldError, Form

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
class Row:
    """Rows of a file that are of the same thing, summed.

    `gpus_per_hour` None = its SKU says it; `hours` None = not by the hour.
    """

    line: int
    sku: str
    region: str
    category: str
    gpu_model: str
    gpus_per_hour: int | None
    description: str
    hours: Decimal | None
    amount: Decimal


@dataclass(frozen=True, slots=True)
class Read:
    """A whole invoice as its file has it."""

    form: str
    issuer: str
    currency: str
    rows: int
    lines: list[Row]


@dataclass(frozen=True, slots=True)
class _Charge:
    """One row of the file; what has to be the same in all of them beside it."""

    row: Row
    form: str
    issuer: str
    currency: str
    month: str  # "" = not said


def read(content: bytes, month: str) -> Read:
    """The invoice of that month ("2026-10").

    Raises RefusedError with every fault found, at most MAX_FAULTS.
    """
    charges, faults = csv_rows.read(content, [_FOCUS_FORM, _PLAIN_FORM], _parsed)
    lines = _summed(charge.row for charge in charges)
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
        yield Fault(charge.row.line, columns.get("month", "month"), text)
    for field in ("issuer", "currency"):
        here = getattr(charge, field)
        before = getattr(first, field)
        if here != before:
            text = f"{here[:40]!r} here and {before[:40]!r} before: a file is one invoice."
            yield Fault(charge.row.line, columns.get(field, field), text)


def _summed(rows: Iterable[Row]) -> list[Row]:
    lines: dict[Row, Row] = {}
    for row in rows:
        # what is of the same thing is equal but for its amounts; one with a SKU is named by it
        key = replace(
            row,
            line=0,
            description="" if row.sku else row.description,
            hours=None if row.hours is None else ZERO,
            amount=ZERO,
        )
        if key in lines:
            sums = lines[key]
            hours = None if row.hours is None else EXACT.add(sums.hours or ZERO, row.hours)
            row = replace(sums, hours=hours, amount=EXACT.add(sums.amount, row.amount))
        lines[key] = row
    return list(lines.values())


def _plain(line: int, cells: Cells) -> _Charge:
    hours = _number(cells, "gpu_hours", FINEST_HOURS) if cells["gpu_hours"] else None
    model = _text(cells, "gpu_model")
    usual = {
        "category": cells["category"].capitalize() or "Usage",
        "currency": cells["currency"] or "USD",
    }
    charge = _charge(line, {**cells, **usual}, CSV, _Used(model, 1, hours))
    if not (charge.row.sku or model or charge.row.description):
        raise FieldError("sku", "What is charged? A sku, a gpu_model or a description, please.")
    return charge


def _focus(line: int, cells: Cells) -> _Charge:
    given = {name: "" if cells[name].lower() == "null" else cells[name] for name in FOCUS_READ}
    ours = {name: given[column] for name, column in FOCUS_COLUMNS.items()}
    if not ours["month"]:
        raise FieldError("month", "Of which month is it? Like 2026-10-01T00:00:00Z.")
    ours["month"] = ours["month"][:7]
    used = _details(given[DETAILS])
    return _charge(line, ours, FOCUS, _with_hours(used, given))


@dataclass(frozen=True, slots=True)
class _Used:
    """What was used, of which GPU model ("" = not said) and how many of them an hour is of."""

    gpu_model: str
    gpus_per_hour: int | None = None
    hours: Decimal | None = None


def _charge(line: int, cells: Cells, form: str, used: _Used) -> _Charge:
    category = cells["category"]
    if category not in CATEGORIES:
        raise FieldError("category", f"One of {', '.join(CATEGORIES)}, not {category[:40]!r}.")
    row = Row(
        line=line,
        sku=_text(cells, "sku"),
        region=_text(cells, "region"),
        category=category,
        gpu_model=used.gpu_model,
        gpus_per_hour=used.gpus_per_hour,
        description=_sentence(cells["description"]),
        hours=used.hours if category == "Usage" else None,
        amount=_number(cells, "amount", FINEST_AMOUNT),
    )
    return _Charge(row, form, _text(cells, "issuer"), _currency(cells["currency"]), cells["month"])


def _with_hours(used: _Used, cells: Cells) -> _Used:
    """With the hours that were consumed, else priced, and of how many GPUs one is, where the unit
    says it.
    """
    for quantity, unit in QUANTITIES:
        name = cells[unit].lower().replace(" ", "-")
        if name in _HOURS and cells[quantity]:
            hours = _number(cells, quantity, FINEST_HOURS)
            return _Used(used.gpu_model, _HOURS[name] or used.gpus_per_hour, hours)
    return used


def _details(text: str) -> _Used:
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
    is_count = type(gpus) is int and 1 <= gpus <= MAX_GPUS
    name = _checked(DETAILS, model, MAX_TEXT["gpu_model"]) if isinstance(model, str) else ""
    return _Used(name, gpus if is_count else None)


def _currency(text: str) -> str:
    code = text.upper()
    if len(code) != len("USD") or not code.isascii() or not code.isalpha():
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
