"""Invoices as CSV: a file as it came in becomes an invoice and its lines, not yet stored, or a list
of what is wrong with it by line and field.

Two forms, told apart by their columns: FOCUS 1.2 (https://focus.finops.org) and a plain one. Rows
that name the same SKU, region, kind of charge and GPU model are one line.
"""

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import NamedTuple

from fleetwatch.figures.pricing import EXACT
from fleetwatch.figures.totals import ZERO
from fleetwatch.lib.csv_files import amounts, csv_rows
from fleetwatch.lib.csv_files.csv_rows import Cells, Fault, FieldError, Form
from fleetwatch.reports.models import Invoice, InvoiceLine

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
STATUS = "CommitmentDiscountStatus"
FOCUS_READ = (*FOCUS_COLUMNS.values(), *QUANTITIES[0], *QUANTITIES[1], DETAILS, STATUS)
# units that are hours of something, by their FOCUS spellings; a GPU-hour is of one GPU
_HOURS = {"hours": None, "hour": None, "instance-hours": None, "gpu-hours": 1, "gpu-hour": 1}
_PLAIN_FORM = Form(
    what="charge",
    columns=COLUMNS,
    needed=("amount",),
    one_of=(("sku", "gpu_model", "description"),),
    max_bytes=MAX_BYTES,
    max_rows=MAX_ROWS,
    sound={"sku": "-", "amount": "0", "category": CATEGORIES[0], "currency": "USD"},
)
_FOCUS_FORM = replace(
    _PLAIN_FORM,
    columns=FOCUS_READ,
    needed=FOCUS_READ[:4],
    one_of=(),
    is_ours=False,
    sound={
        "BilledCost": "0",
        "BillingCurrency": "USD",
        "BillingPeriodStart": "-",
        "ChargeCategory": CATEGORIES[0],
    },
)


class _Thing(NamedTuple):
    """What rows of one line have in common, as fields of the line."""

    sku: str
    region: str
    category: str
    gpu_model: str
    gpus_per_hour: int | None  # None = its SKU says it


class _Charge(NamedTuple):
    """One row of the file; in all of them the last four have to be the same."""

    line: int
    thing: _Thing
    description: str
    hours: Decimal | None  # None = not by the hour
    amount: Decimal
    form: str
    month: str  # "" = not said
    issuer: str
    currency: str


class _Use(NamedTuple):
    """What was used: of which GPU model ("" = not said), of how many GPUs an hour is, and hours."""

    gpu_model: str
    gpus_per_hour: int | None
    hours: Decimal | None = None


def read(content: bytes, month: str) -> tuple[Invoice, list[InvoiceLine]]:
    """The invoice of that month ("2026-10") as its file has it, and its lines; not yet stored.

    Raises RefusedError with every fault of every row, as csv_rows counts them.
    """
    charges, faults = csv_rows.read(content, [_FOCUS_FORM, _PLAIN_FORM], _parsed)
    lines = _summed(charges)
    faults += list(_differences(charges, {(each.line, each.field) for each in faults}, month))
    if len(lines) > MAX_LINES:
        text = (
            f"There are more than {MAX_LINES:,} different lines in it: leave out what are no GPUs."
        )
        faults.append(Fault(1, "", text))
    csv_rows.refuse(faults)
    facts = {name: getattr(charges[0], name) for name in ("form", "issuer", "currency")}
    digest = hashlib.sha256(content).hexdigest()
    return Invoice(month=month, rows=len(charges), digest=digest, **facts), lines


def _differences(
    charges: Sequence[_Charge], faulty: Collection[tuple[int, str]], month: str
) -> Iterator[Fault]:
    """A file is one invoice: of one month, one issuer and one currency; `faulty` cells (line and
    column) are told already.
    """
    columns = FOCUS_COLUMNS if charges and charges[0].form == FOCUS else {}
    for field in ("month", "issuer", "currency"):
        column = columns.get(field, field)
        sound = [each for each in charges if (each.line, column) not in faulty]
        for charge in sound:
            text = _difference(field, charge, sound[0], month)
            if text:
                yield Fault(charge.line, column, text)


def _difference(field: str, charge: _Charge, first: _Charge, month: str) -> str:
    """What is wrong with the field of a charge, and what to do; "" where nothing is."""
    here = getattr(charge, field)
    before = getattr(first, field)
    if field == "month":
        if here in ("", month):
            return ""
        return (
            f"It is of {here[:20]}, and this is the invoice of {month}: import it there, or correct"
            " the month."
        )
    if here == before:
        return ""
    return (
        f"{here[:40]!r} here and {before[:40]!r} before: a file is one invoice. Import a file of"
        " each."
    )


def _summed(charges: Iterable[_Charge]) -> list[InvoiceLine]:
    """Those of the same thing as one line; a SKU names a thing, whatever is said of it."""
    lines: dict[tuple[object, ...], InvoiceLine] = {}
    for charge in charges:
        described = "" if charge.thing.sku else charge.description
        thing = (charge.thing, described, charge.hours is None)
        if line := lines.get(thing):
            line.amount = EXACT.add(line.amount, charge.amount)
            if charge.hours is not None:
                line.hours = EXACT.add(line.hours or ZERO, charge.hours)
        else:
            lines[thing] = InvoiceLine(
                line=charge.line,
                description=charge.description,
                hours=charge.hours,
                amount=charge.amount,
                **charge.thing._asdict(),
            )
    return list(lines.values())


def _parsed(form: Form, line: int, cells: Cells) -> _Charge:
    if form is _PLAIN_FORM:
        return _plain(line, cells)
    try:
        return _focus(line, cells)
    except FieldError as error:
        raise FieldError(FOCUS_COLUMNS.get(error.field, error.field), str(error)) from error


def _plain(line: int, cells: Cells) -> _Charge:
    hours = _number(cells, "gpu_hours", FINEST_HOURS) if cells["gpu_hours"] else None
    use = _Use(_text(cells, "gpu_model"), 1, hours)
    usual = {
        "category": cells["category"].capitalize() or "Usage",
        "currency": cells["currency"] or "USD",
    }
    charge = _charge(line, {**cells, **usual}, CSV, use)
    if not (charge.thing.sku or use.gpu_model or charge.description):
        raise FieldError("sku", "What is charged? A sku, a gpu_model or a description, please.")
    return charge


def _focus(line: int, cells: Cells) -> _Charge:
    given = {name: "" if cells[name].lower() == "null" else cells[name] for name in FOCUS_READ}
    ours = {name: given[column] for name, column in FOCUS_COLUMNS.items()}
    if not ours["month"]:
        raise FieldError("month", "Of which month is it? Like 2026-10-01T00:00:00Z.")
    ours["month"] = ours["month"][:7]
    return _charge(line, ours, FOCUS, _with_hours(_details(given[DETAILS]), given))


def _charge(line: int, cells: Cells, form: str, use: _Use) -> _Charge:
    """The row with what both forms say alike."""
    category = cells["category"]
    if category not in CATEGORIES:
        raise FieldError("category", f"One of {', '.join(CATEGORIES)}, not {category[:40]!r}.")
    sku = _text(cells, "sku")
    return _Charge(
        line,
        _Thing(sku, _text(cells, "region"), category, use.gpu_model, use.gpus_per_hour),
        _sentence(cells["description"]),
        use.hours if category == "Usage" else None,
        _number(cells, "amount", FINEST_AMOUNT),
        form,
        cells["month"],
        _text(cells, "issuer"),
        _currency(cells["currency"]),
    )


def _details(text: str) -> _Use:
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
    longest = MAX_TEXT["gpu_model"]
    gpu_model = _checked(DETAILS, model, longest) if isinstance(model, str) else ""
    return _Use(gpu_model, gpus if is_count else None)


def _with_hours(use: _Use, cells: Cells) -> _Use:
    """With the hours that were consumed, else priced, and of how many GPUs one is, where the unit
    says it. What of a commitment is unused was priced and is no hour of a GPU.
    """
    is_unused = cells[STATUS].lower() == "unused"
    for quantity, unit in QUANTITIES[:1] if is_unused else QUANTITIES:
        name = cells[unit].lower().replace(" ", "-")
        if name in _HOURS and cells[quantity]:
            gpus_per_hour = _HOURS[name] or use.gpus_per_hour
            return _Use(use.gpu_model, gpus_per_hour, _number(cells, quantity, FINEST_HOURS))
    return use


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
