"""A cell of a workbook: text as text only, numbers as numbers. Pure."""

from decimal import Decimal

from xlsxwriter.format import Format
from xlsxwriter.worksheet import Worksheet

from fleetwatch.reports.exports.tables import Cell

# Excel's limit of characters; a longer text would make the whole file unreadable
LONGEST_CELL = 32_767


def write_cell(sheet: Worksheet, place: tuple[int, int], cell: Cell, amount: Format) -> None:
    """Counts have no format, amounts theirs; what is not known stays empty."""
    if isinstance(cell, str):
        # never read as a formula, a link or a number, whatever it looks like
        sheet.write_string(*place, cell[:LONGEST_CELL])
    elif cell is not None:
        sheet.write_number(*place, float(cell), amount if isinstance(cell, Decimal) else None)
