"""Invoices as CSV: a file as it came in becomes lines of one invoice, or a list of what is wrong
with it by line and field. Pure.

Two forms, told apart by their columns: FOCUS 1.2 (https://focus.finops.org), of which the columns
of FOCUS_READ are read, and a plain one (COLUMNS). Rows that name the same SKU, region, kind of
charge and GPU model are one line.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from fleetwatch.figures.pricing import EXACT
from fleetwatch.lib import amounts, csv_rows
from fleetwatch.lib.csv_rows import MAX_FAULTS, Fault, FieldError, RefusedError

MAX_BYTES = 20_000_000
MAX_ROWS = 200_000
MAX_LINES = 5_000
MAX_TEXT = {"sku": 200, "region": 63, "gpu_model": 100, "description": 300, "issuer": 100}
MAX_AMOUNT = Decimal(10**12)
MAX_HOURS = Decimal(10**12)
MAX_GPUS = 100_000
FINEST_AMOUNT, FINEST_HOURS = Decimal("1e-12"), Decimal("1e-9")

CSV, FOCUS = "csv", "focus"
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
NEEDED = ("amount",)
FOCUS_NEEDED = ("BilledCost", "BillingCurrency", "BillingPeriodStart", "ChargeCategory")
FOCUS_READ = (
    *FOCUS_NEEDED, "InvoiceIssuerName", "SkuId", "RegionId", "ChargeDescription",
    "ConsumedQuantity", "ConsumedUnit",
    "PricingQuantity", "PricingUnit", "SkuPriceDetails",
)  # fmt: skip
# units that are hours of something, by their FOCUS spellings; a GPU-hour is of one GPU
_HOURS = {"hours": None, "hour": None, "instance-hours": None, "gpu-hours": 1, "gpu-hour": 1}


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
class _Cells:
    """One row of the file, read; what has to be the same in all of them beside it."""

    row: Row
    issuer: str
    currency: str
    month: str  # "" = not said


def read(content: bytes, month: str) -> Read:
    """The invoice of that month ("2026-10").

    Raises RefusedError with every fault found, at most MAX_FAULTS.
    """
    form: list[str] = []
    found: dict[tuple[object, ...], Row] = {}
    faults: list[Fault] = []
    one: dict[str, str] = {}
    count = 0
    for one_line in csv_rows.rows(
        content,
        max_bytes=MAX_BYTES,
        max_rows=MAX_ROWS,
        check_header=_check_header(form),
        lower=False,
    ):
        if len(faults) >= MAX_FAULTS:
            break
        if isinstance(one_line, Fault):
            faults.append(one_line)
            continue
        line, cells = one_line
        count += 1
        try:
            told = (
                _focus(line, cells)
                if form[0] == FOCUS
                else _plain(line, {name.lower(): text for name, text in cells.items()})
            )
            _check_same(told, month, one, form[0])
        except FieldError as error:
            faults.append(Fault(line, error.field, str(error)))
            continue
        _add(found, told.row)
    if len(found) > MAX_LINES:
        faults.append(
            Fault(
                1,
                "",
                f"There are more than {MAX_LINES:,} different lines in it: leave out what are no"
                " GPUs.",
            )
        )
    if faults:
        raise RefusedError(faults)
    if not count:
        raise RefusedError([Fault(1, "", "There is no charge in it.")])
    return Read(form[0], one["issuer"], one["currency"], count, list(found.values()))


def _check_header(form: list[str]) -> Callable[[list[str]], None]:
    """Puts the form's name into the list, or refuses the columns."""

    def check(header: list[str]) -> None:
        form.append(FOCUS if "BilledCost" in header else CSV)
        if form[0] == FOCUS:
            faults = csv_rows.header_faults(header, needed=FOCUS_NEEDED)
        else:
            lower = [name.lower() for name in header]
            faults = csv_rows.header_faults(lower, needed=NEEDED, allowed=COLUMNS)
            if not {"sku", "gpu_model", "description"} & set(lower):
                faults.append(
                    Fault(1, "", "One of the columns sku, gpu_model, description is needed.")
                )
        if faults:
            raise RefusedError(faults[:MAX_FAULTS])

    return check


def _check_same(told: _Cells, month: str, one: dict[str, str], form: str) -> None:
    """A file is one invoice: of one month, one issuer and one currency."""
    names = (
        {
            "issuer": "InvoiceIssuerName",
            "currency": "BillingCurrency",
            "month": "BillingPeriodStart",
        }
        if form == FOCUS
        else {}
    )
    if told.month and told.month != month:
        raise FieldError(
            names.get("month", "month"),
            f"It is of {told.month[:20]}, and this is the invoice of {month}.",
        )
    for field, text in (("issuer", told.issuer), ("currency", told.currency)):
        if one.setdefault(field, text) != text:
            raise FieldError(
                names.get(field, field),
                f"{text[:40]!r} here and {one[field][:40]!r} before: a file is one invoice.",
            )


def _add(found: dict[tuple[object, ...], Row], row: Row) -> None:
    key = (
        row.sku,
        row.region,
        row.category,
        row.gpu_model,
        row.gpus_per_hour,
        row.hours is None,
        "" if row.sku else row.description,
    )
    known = found.get(key)
    if known is None:
        found[key] = row
        return
    hours = None if known.hours is None or row.hours is None else EXACT.add(known.hours, row.hours)
    found[key] = replace(known, hours=hours, amount=EXACT.add(known.amount, row.amount))


def _plain(line: int, cells: Mapping[str, str]) -> _Cells:
    category = cells.get("category", "").capitalize() or "Usage"
    hours = (
        _number("gpu_hours", cells.get("gpu_hours", ""), most=MAX_HOURS, finest=FINEST_HOURS)
        if cells.get("gpu_hours")
        else None
    )
    row = Row(
        line=line,
        sku=_text(cells, "sku", "sku"),
        region=_text(cells, "region", "region"),
        category=_category(category, "category"),
        gpu_model=_text(cells, "gpu_model", "gpu_model"),
        gpus_per_hour=1,
        description=_sentence(cells.get("description", "")),
        hours=hours if category == "Usage" else None,
        amount=_number("amount", cells.get("amount", ""), most=MAX_AMOUNT, finest=FINEST_AMOUNT),
    )
    if not (row.sku or row.gpu_model or row.description):
        raise FieldError("sku", "What is charged? A sku, a gpu_model or a description, please.")
    return _Cells(
        row,
        _text(cells, "issuer", "issuer"),
        _currency(cells.get("currency", "") or "USD", "currency"),
        cells.get("month", ""),
    )


def _focus(line: int, cells: Mapping[str, str]) -> _Cells:
    known = {
        name: "" if text.lower() == "null" else text
        for name, text in cells.items()
        if name in FOCUS_READ
    }
    category = _category(known.get("ChargeCategory", ""), "ChargeCategory")
    model, gpus = _details(known.get("SkuPriceDetails", ""))
    hours, of_gpus = _focus_hours(known) if category == "Usage" else (None, None)
    row = Row(
        line=line,
        sku=_text(known, "SkuId", "sku"),
        region=_text(known, "RegionId", "region"),
        category=category,
        gpu_model=model,
        gpus_per_hour=of_gpus or gpus,
        description=_sentence(known.get("ChargeDescription", "")),
        hours=hours,
        amount=_number(
            "BilledCost", known.get("BilledCost", ""), most=MAX_AMOUNT, finest=FINEST_AMOUNT
        ),
    )
    month = known.get("BillingPeriodStart", "")[:7]
    if not month:
        raise FieldError("BillingPeriodStart", "Of which month is it? Like 2026-10-01T00:00:00Z.")
    return _Cells(
        row,
        _text(known, "InvoiceIssuerName", "issuer"),
        _currency(known.get("BillingCurrency", ""), "BillingCurrency"),
        month,
    )


def _focus_hours(cells: Mapping[str, str]) -> tuple[Decimal | None, int | None]:
    """Hours that were consumed, else priced, and of how many GPUs one is, where the unit says it;
    None = not by the hour.
    """
    for quantity, unit in (
        ("ConsumedQuantity", "ConsumedUnit"),
        ("PricingQuantity", "PricingUnit"),
    ):
        name = cells.get(unit, "").lower().replace(" ", "-")
        if name in _HOURS and cells.get(quantity):
            return (
                _number(quantity, cells[quantity], most=MAX_HOURS, finest=FINEST_HOURS),
                _HOURS[name],
            )
    return None, None


def _details(text: str) -> tuple[str, int | None]:
    """GPU model and number of GPUs, where the SKU's details have them: GpuCount is FOCUS's,
    x_GpuModel our own export's.
    """
    try:
        found = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        raise FieldError("SkuPriceDetails", "This is no JSON object.") from None
    if not isinstance(found, dict):
        raise FieldError("SkuPriceDetails", "This is no JSON object.")
    model, gpus = found.get("x_GpuModel", ""), found.get("GpuCount")
    count = (
        gpus
        if isinstance(gpus, int) and not isinstance(gpus, bool) and 1 <= gpus <= MAX_GPUS
        else None
    )
    return (
        _checked(model, "SkuPriceDetails", MAX_TEXT["gpu_model"]) if isinstance(model, str) else ""
    ), count


def _category(text: str, field: str) -> str:
    if text not in CATEGORIES:
        raise FieldError(field, f"One of {', '.join(CATEGORIES)}, not {text[:40]!r}.")
    return text


def _currency(text: str, field: str) -> str:
    code = text.upper()
    if len(code) != len("USD") or not code.isascii() or not code.isalpha():
        raise FieldError(field, f"A currency has three letters, like USD, not {text[:40]!r}.")
    return code


def _text(cells: Mapping[str, str], field: str, what: str) -> str:
    return _checked(cells.get(field, ""), field, MAX_TEXT[what])


def _sentence(text: str) -> str:
    """What a provider wrote for people: cut, and without line breaks and the like."""
    return "".join(
        letter if letter.isprintable() else " " for letter in text[: MAX_TEXT["description"]]
    ).strip()


def _checked(text: str, field: str, longest: int) -> str:
    if len(text) > longest or not text.isprintable():
        raise FieldError(field, f"At most {longest} letters and no control characters, please.")
    return text


def _number(field: str, text: str, *, most: Decimal, finest: Decimal) -> Decimal:
    number = amounts.number(text)
    if number is None or abs(number) > most:
        raise FieldError(field, f"A number like 1234.56, please, not {text[:40]!r}.")
    return number.quantize(finest)
