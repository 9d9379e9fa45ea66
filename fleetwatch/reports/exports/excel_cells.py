"""A cell of a workbook: text as text only, numbers as numbers. Pure."""

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal

from xlsxwriter.format import Format
from xlsxwriter.workbook import Workbook
from xlsxwriter.worksheet import Worksheet

from fleetwatch.reports.exports import headings
from fleetwatch.reports.exports.tables import Cell
from fleetwatch.reports.months import in_words

Formats = Mapping[str, Format]
# by what a column is: how its cells are shown
SHOWN_AS = {
    "money": "#,##0.00",
    "rate": "#,##0.00#",
    "hours": "#,##0.0",
    "share": "0.0%",
    "moment": "yyyy-mm-dd hh:mm",
}

# Excel's limit of characters; a longer text would make the whole file unreadable
LONGEST_CELL = 32_767


def write_cell(sheet: Worksheet, place: tuple[int, int], cell: Cell, amount: Format) -> None:
    """Counts have no format, amounts theirs; what is not known stays empty."""
    if isinstance(cell, str):
        # never read as a formula, a link or a number, whatever it looks like
        sheet.write_string(*place, cell[:LONGEST_CELL])
    elif cell is not None:
        sheet.write_number(*place, float(cell), amount if isinstance(cell, Decimal) else None)


def formats(book: Workbook, *, bold: bool = False) -> Formats:
    """By kind of column."""
    return {kind: book.add_format({"num_format": f, "bold": bold}) for kind, f in SHOWN_AS.items()}


def write_of_column(
    sheet: Worksheet, place: tuple[int, int], cell: Cell, column: str, formats_of: Formats
) -> None:
    """The cell as what its column says it is: a moment as a date of Excel's, a month in words."""
    kind = kind_of(column)
    if cell is None or cell == "":
        return
    if kind == "moment" and isinstance(cell, str):
        moment = datetime.fromisoformat(cell).astimezone(UTC).replace(tzinfo=None)
        sheet.write_datetime(*place, moment, formats_of["moment"])
    elif column == "month" and isinstance(cell, str):
        write_cell(sheet, place, in_words(cell), formats_of[kind])
    else:
        write_cell(sheet, place, cell, formats_of[kind])


def kind_of(column: str) -> str:
    """One of SHOWN_AS."""
    if column.endswith(headings.UTC):
        return "moment"
    if column.endswith("usd_per_gpu_hour"):
        return "rate"
    if column.endswith(headings.HOURS) and "usd" not in column:
        return "hours"
    return "share" if column.endswith(("_ratio", "share_of_cost")) else "money"
