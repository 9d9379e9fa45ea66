"""Rates as CSV: a file as it came in becomes checked rows, or a list of what is wrong with it by line and field. Pure.

Columns: one of gpu (UUID), node, pool, gpu_model; class and region narrow a model's rate; price (per
GPU-hour); valid_from and valid_to ("" = open) as dates of the organisation, times with an offset, or
"beginning"; currency ("" = USD), pricing_class, source, source_date.
"""

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from zoneinfo import ZoneInfo

MAX_BYTES = 1_000_000
MAX_ROWS = 5_000
MAX_FAULTS = 100  # told; a file that is wrong in more places is wrong in its form
MAX_FIELD = 300

SUBJECTS = ("gpu", "node", "pool", "gpu_model")
COLUMNS = (*SUBJECTS, "class", "region", "price", "currency", "valid_from", "valid_to", "pricing_class", "source", "source_date")
NEEDED = ("price", "valid_from")
_NO_DATE = "A date like 2026-11-01, please, not {!r}."


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong in a line (the first is 1) and field ("" = the line as a whole)."""

    line: int
    field: str
    text: str

    def __str__(self) -> str:
        return f"line {self.line}{f', {self.field}' if self.field else ''}: {self.text}"


class RefusedError(ValueError):
    """A file that can't be taken; nothing of it was."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__("; ".join(map(str, faults[:3])))
        self.faults = faults


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


class _FieldError(ValueError):
    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field = field


def read(content: bytes, zone: ZoneInfo) -> list[Row]:
    """The rows of a file. Raises RefusedError with every fault found, at most MAX_FAULTS."""
    rows, faults = [], []
    for line, cells in _lines(content):
        try:
            rows.append(_row(line, cells, zone))
        except _FieldError as error:
            faults.append(Fault(line, error.field, str(error)))
    if faults:
        raise RefusedError(faults[:MAX_FAULTS])
    if not rows:
        raise RefusedError([Fault(1, "", "There is no rate in it.")])
    return rows


def _lines(content: bytes) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Line number and cells by column of each line that is not empty."""
    reader = csv.reader(io.StringIO(_text(content), newline=""), delimiter=_delimiter(content), strict=True)
    count = 0
    try:
        header = [name.strip().lower() for name in next(reader, [])]
        _check_header(header)
        following = reader.line_num + 1
        for cells in reader:
            # a quoted cell may go over several lines: where the row begins is what is told
            at, following = following, reader.line_num + 1
            if not any(cell.strip() for cell in cells):
                continue
            count += 1
            if count > MAX_ROWS:
                raise RefusedError([Fault(at, "", f"There are more than {MAX_ROWS} rates in it.")])
            if len(cells) > len(header):
                raise RefusedError([Fault(at, "", f"It has {len(cells)} cells, the first line has {len(header)}.")])
            yield at, dict(zip(header, (cell.strip() for cell in cells), strict=False))
    except csv.Error as error:
        raise RefusedError([Fault(reader.line_num, "", f"This is no CSV: {error}.")]) from error


def _text(content: bytes) -> str:
    if len(content) > MAX_BYTES:
        raise RefusedError([Fault(1, "", f"The file is larger than {MAX_BYTES:,} bytes.")])
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RefusedError([Fault(content[: error.start].count(b"\n") + 1, "", "This is not UTF-8 text.")]) from error
    if "\0" in text:
        raise RefusedError([Fault(text[: text.index("\0")].count("\n") + 1, "", "There is a zero byte in it.")])
    return text


def _delimiter(content: bytes) -> str:
    """What the first line has more of: spreadsheets of some countries write semicolons."""
    first = content.split(b"\n", 1)[0]
    return ";" if first.count(b";") > first.count(b",") else ","


def _check_header(header: list[str]) -> None:
    faults = [Fault(1, name[:40], "There is no such column.") for name in header if name not in COLUMNS]
    faults += [Fault(1, name, "This column stands twice.") for name in sorted({name for name in header if header.count(name) > 1})]
    faults += [Fault(1, name, "This column is needed.") for name in NEEDED if name not in header]
    if not any(name in header for name in SUBJECTS):
        faults.append(Fault(1, "", f"One of the columns {', '.join(SUBJECTS)} is needed."))
    if faults:
        raise RefusedError(faults[:MAX_FAULTS])


def _row(line: int, cells: Mapping[str, str], zone: ZoneInfo) -> Row:
    for field, text in cells.items():
        if len(text) > MAX_FIELD or not text.isprintable():
            raise _FieldError(field, f"At most {MAX_FIELD} letters and no control characters, please.")
    named = [kind for kind in SUBJECTS if cells.get(kind)]
    if len(named) != 1:
        raise _FieldError(named[1] if named else "", f"Exactly one of {', '.join(SUBJECTS)}, please.")
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
    try:
        # Decimal also reads "1_0", digits of other scripts and "Infinity": a price has none of that
        price = Decimal(text) if text.isascii() and "_" not in text else Decimal("NaN")
    except InvalidOperation:
        price = Decimal("NaN")
    if not price.is_finite():
        raise _FieldError("price", f"A number like 2.49, please, not {text[:40]!r}.")
    return price


def _begins(text: str, zone: ZoneInfo) -> datetime | None:
    if not text:
        raise _FieldError("valid_from", "From when on? A date like 2026-11-01, or beginning.")
    return None if text.lower() == "beginning" else _time("valid_from", text, zone)


def _day(field: str, text: str) -> date | None:
    """The field as a day, None where it is empty."""
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise _FieldError(field, _NO_DATE.format(text[:40])) from None


def _time(field: str, text: str, zone: ZoneInfo) -> datetime | None:
    """The field as a moment, None where it is empty."""
    try:
        return _moment(text, zone) if text else None
    except (ValueError, OverflowError):
        raise _FieldError(field, _NO_DATE.format(text[:40])) from None


def _moment(text: str, zone: ZoneInfo) -> datetime:
    """A day's midnight in the zone, or a moment with its offset, in UTC."""
    if len(text) == len("2026-11-01"):
        return datetime.combine(date.fromisoformat(text), time.min, tzinfo=zone).astimezone(UTC)
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("without an offset nobody knows when it is")
    return moment.astimezone(UTC)
