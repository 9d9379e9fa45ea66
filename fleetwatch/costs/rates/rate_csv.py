"""Rates as CSV: a file as it came in becomes checked rows, or a list of what is wrong with it by
line and field.

Columns: one of gpu (UUID), node, pool, gpu_model; class and region narrow a model's rate; price
(per GPU-hour); valid_from and valid_to ("" = open) as dates of the organisation, times with an
offset, or "beginning"; currency ("" = USD), pricing_class, source, source_date.
"""

from dataclasses import dataclass
from decimal import Decimal
from zoneinfo import ZoneInfo

from fleetwatch.costs.models import Rate
from fleetwatch.costs.rates.subjects import BEGINNING
from fleetwatch.lib.csv_files import amounts, csv_cells, csv_rows
from fleetwatch.lib.csv_files.csv_rows import Cells, Fault, FieldError, Form

SUBJECTS = ("gpu", "node", "pool", "gpu_model")
FORM = Form(
    what="rate",
    columns=(
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
    ),
    needed=("price", "valid_from"),
    one_of=(SUBJECTS,),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One rate as a file has it, not yet stored and of no subject yet: that is one of SUBJECTS, of
    this name.
    """

    line: int
    kind: str
    name: str
    rate: Rate


def read(content: bytes, zone: ZoneInfo) -> tuple[list[Row], list[Fault]]:
    """The rows of a file, and what is wrong with its other lines.

    Raises RefusedError where its columns or its form can't be.
    """
    return csv_rows.read(content, [FORM], lambda _, line, cells: _row(line, cells, zone))


def _row(line: int, cells: Cells, zone: ZoneInfo) -> Row:
    csv_cells.check_texts(cells)
    named = [kind for kind in SUBJECTS if cells[kind]]
    if len(named) != 1:
        raise FieldError(
            named[1] if named else "", f"Exactly one of {', '.join(SUBJECTS)}, please."
        )
    [kind] = named
    rate = Rate(
        node_class=cells["class"],
        region=cells["region"],
        price_per_gpu_hour=_price(cells["price"]),
        currency=cells["currency"].upper() or "USD",
        valid_from=csv_cells.begins("valid_from", cells["valid_from"], zone) or BEGINNING,
        valid_to=csv_cells.moment("valid_to", cells["valid_to"], zone),
        pricing_class=cells["pricing_class"],
        source=cells["source"] or "imported",
        source_date=csv_cells.day("source_date", cells["source_date"]),
    )
    return Row(line, kind, cells[kind], rate)


def _price(text: str) -> Decimal:
    price = amounts.number(text)
    if price is None:
        raise FieldError("price", f"A number like 2.49, please, not {text[:40]!r}.")
    return price
