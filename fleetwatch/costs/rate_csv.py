"""Rates as CSV: a file as it came in becomes checked rows, or a list of what is wrong with it by line and field. Pure.

Columns: one of gpu (UUID), node, pool, gpu_model; class and region narrow a model's rate; price (per
GPU-hour); valid_from and valid_to ("" = open) as dates of the organisation, times with an offset, or
"beginning"; currency ("" = USD), pricing_class, source, source_date.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from zoneinfo import ZoneInfo

from fleetwatch.lib import csv_rows
from fleetwatch.lib.csv_rows import MAX_FAULTS, Fault, FieldError, RefusedError

MAX_BYTES = 1_000_000
MAX_ROWS = 5_000
MAX_FIELD = 300

SUBJECTS = ("gpu", "node", "pool", "gpu_model")
COLUMNS = (*SUBJECTS, "class", "region", "price", "currency", "valid_from", "valid_to", "pricing_class", "source", "source_date")
NEEDED = ("price", "valid_from")
_NO_DATE = "A date like 2026-11-01, please, not {!r}."


@dataclass(frozen=True, slots=True)
class Row:
    """One rate as a file has it. `kind` is one of SUBJECTS; valid_from None = from the beginning."""

    line: int
    kind: str
    name: str
    node_class: str
    region: str
    price: Decimal
    currency: str
    valid_from: datetime | None
    valid_to: datetime | None
    pricing_class: str
    source: str
    source_date: date | None


def read(content: bytes, zone: ZoneInfo) -> list[Row]:
    """The rows of a file. Raises RefusedError with every fault found, at most MAX_FAULTS."""
    rows, faults = [], []
    for line, cells in csv_rows.rows(content, max_bytes=MAX_BYTES, max_rows=MAX_ROWS, check_header=_check_header):
        try:
            rows.append(_row(line, cells, zone))
        except FieldError as error:
            faults.append(Fault(line, error.field, str(error)))
    if faults:
        raise RefusedError(faults[:MAX_FAULTS])
    if not rows:
        raise RefusedError([Fault(1, "", "There is no rate in it.")])
    return rows


def _check_header(header: list[str]) -> None:
    faults = csv_rows.header_faults(header, needed=NEEDED, known=COLUMNS)
    if not any(name in header for name in SUBJECTS):
        faults.append(Fault(1, "", f"One of the columns {', '.join(SUBJECTS)} is needed."))
    if faults:
        raise RefusedError(faults[:MAX_FAULTS])


def _row(line: int, cells: Mapping[str, str], zone: ZoneInfo) -> Row:
    for field, text in cells.items():
        if len(text) > MAX_FIELD or not text.isprintable():
            raise FieldError(field, f"At most {MAX_FIELD} letters and no control characters, please.")
    named = [kind for kind in SUBJECTS if cells.get(kind)]
    if len(named) != 1:
        raise FieldError(named[1] if named else "", f"Exactly one of {', '.join(SUBJECTS)}, please.")
    return Row(
        line=line,
        kind=named[0],
        name=cells[named[0]],
        node_class=cells.get("class", ""),
        region=cells.get("region", ""),
        price=_price(cells.get("price", "")),
        currency=cells.get("currency", "").upper() or "USD",
        valid_from=_begins(cells.get("valid_from", ""), zone),
        valid_to=_time("valid_to", cells.get("valid_to", ""), zone),
        pricing_class=cells.get("pricing_class", ""),
        source=cells.get("source", ""),
        source_date=_day("source_date", cells.get("source_date", "")),
    )


def _price(text: str) -> Decimal:
    price = csv_rows.number(text)
    if price is None:
        raise FieldError("price", f"A number like 2.49, please, not {text[:40]!r}.")
    return price


def _begins(text: str, zone: ZoneInfo) -> datetime | None:
    if not text:
        raise FieldError("valid_from", "From when on? A date like 2026-11-01, or beginning.")
    return None if text.lower() == "beginning" else _time("valid_from", text, zone)


def _day(field: str, text: str) -> date | None:
    """The field as a day, None where it is empty."""
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise FieldError(field, _NO_DATE.format(text[:40])) from None


def _time(field: str, text: str, zone: ZoneInfo) -> datetime | None:
    """The field as a moment, None where it is empty."""
    try:
        return _moment(text, zone) if text else None
    except (ValueError, OverflowError):
        raise FieldError(field, _NO_DATE.format(text[:40])) from None


def _moment(text: str, zone: ZoneInfo) -> datetime:
    """A day's midnight in the zone, or a moment with its offset, in UTC."""
    if len(text) == len("2026-11-01"):
        return datetime.combine(date.fromisoformat(text), time.min, tzinfo=zone).astimezone(UTC)
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("without an offset nobody knows when it is")
    return moment.astimezone(UTC)
