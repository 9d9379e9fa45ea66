"""Rates as CSV: a file as it came in becomes checked rows, or a list of what is wrong with it by
line and field. Pure.

Columns: one of gpu (UUID), node, pool, gpu_model; class and region narrow a model's rate; price
(per GPU-hour); valid_from and valid_to ("" = open) as dates of the organisation, times with an
offset, or "beginning"; currency ("" = USD), pricing_class, source, source_date.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

from fleetwatch.lib import amounts, csv_cells, csv_rows
from fleetwatch.lib.csv_rows import Fault, FieldError

MAX_BYTES = 1_000_000
MAX_ROWS = 2_000

SUBJECTS = ("gpu", "node", "pool", "gpu_model")
COLUMNS = (
    *SUBJECTS,
    "class",
    "region",
    "price",
    "currency",
    "valid_from",
    "valid_to",
    "pricing_class",
    "source",
    "source_date",
)
NEEDED = ("price", "valid_from")


@dataclass(frozen=True, slots=True)
class Row:
    """One rate as a file has it.

    `kind` is one of SUBJECTS; valid_from None = from the beginning.
    """

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


def read(content: bytes, zone: ZoneInfo) -> tuple[list[Row], list[Fault]]:
    """The rows of a file, and what is wrong with its other lines.

    Raises RefusedError where its columns or its form can't be.
    """
    lines = csv_rows.rows(
        content, max_bytes=MAX_BYTES, max_rows=MAX_ROWS, check_header=_check_header
    )
    return csv_rows.parsed(lines, lambda line, cells: _row(line, cells, zone), what="rate")


def _check_header(header: list[str]) -> None:
    faults = csv_rows.header_faults(header, needed=NEEDED, allowed=COLUMNS)
    if not any(name in header for name in SUBJECTS):
        faults.append(Fault(1, "", f"One of the columns {', '.join(SUBJECTS)} is needed."))
    csv_rows.refuse(faults)


def _row(line: int, cells: Mapping[str, str], zone: ZoneInfo) -> Row:
    csv_cells.check_texts(cells)
    named = [kind for kind in SUBJECTS if cells.get(kind)]
    if len(named) != 1:
        raise FieldError(
            named[1] if named else "", f"Exactly one of {', '.join(SUBJECTS)}, please."
        )
    return Row(
        line=line,
        kind=named[0],
        name=cells[named[0]],
        node_class=cells.get("class", ""),
        region=cells.get("region", ""),
        price=_price(cells.get("price", "")),
        currency=cells.get("currency", "").upper() or "USD",
        valid_from=csv_cells.begins("valid_from", cells.get("valid_from", ""), zone),
        valid_to=csv_cells.moment("valid_to", cells.get("valid_to", ""), zone),
        pricing_class=cells.get("pricing_class", ""),
        source=cells.get("source", ""),
        source_date=csv_cells.day("source_date", cells.get("source_date", "")),
    )


def _price(text: str) -> Decimal:
    price = amounts.number(text)
    if price is None:
        raise FieldError("price", f"A number like 2.49, please, not {text[:40]!r}.")
    return price
