"""Tables as CSV and Excel.

Names of users and jobs are typed by anybody: none of them can become a formula. Pure.
"""

import csv
import io
from collections.abc import Iterable, Sequence
from decimal import Decimal

import xlsxwriter
from xlsxwriter.format import Format
from xlsxwriter.worksheet import Worksheet

from fleetwatch.lib.csv_files.formulas import defused
from fleetwatch.reports.exports.cover import Cover
from fleetwatch.reports.exports.cover_sheet import write_cover
from fleetwatch.reports.exports.excel_cells import write_cell
from fleetwatch.reports.exports.tables import Cell, Table

WIDTHS = {
    "job": 26,
    "name": 26,
    "user": 16,
    "team": 16,
    "team_name": 20,
    "gpu_model": 18,
    "from_utc": 21,
    "to_utc": 21,
}


def to_csv(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """RFC 4180. Numbers are exact; what is not known is an empty cell."""
    return written(columns, ([_text(cell) for cell in row] for row in rows))


def written(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """RFC 4180, of texts that no spreadsheet runs."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(columns)
    writer.writerows(rows)
    return out.getvalue()


def to_xlsx(tables: Sequence[Table], cover: Cover | None = None) -> bytes:
    """The cover, where there is one, then a sheet per table: bold head that stays, filters, numbers
    as numbers, text as text only.
    """
    out = io.BytesIO()
    with xlsxwriter.Workbook(out, {"in_memory": True}) as book:
        if cover is not None:
            write_cover(book, cover, tables)
        bold = book.add_format({"bold": True})
        money = book.add_format({"num_format": "#,##0.00"})
        hours = book.add_format({"num_format": "#,##0.0"})
        for table in tables:
            sheet = book.add_worksheet(table.name)
            _lay_out(sheet, table, bold)
            for number, row in enumerate(table.rows, start=1):
                for column, cell in enumerate(row):
                    is_hours = table.columns[column].endswith("gpu_hours")
                    write_cell(sheet, (number, column), cell, hours if is_hours else money)
    return out.getvalue()


def _lay_out(sheet: Worksheet, table: Table, bold: Format) -> None:
    """What is on screen and on paper beside the rows."""
    sheet.freeze_panes(1, 0)
    sheet.autofilter(0, 0, len(table.rows), len(table.columns) - 1)
    sheet.set_landscape()
    sheet.set_paper(9)  # A4
    sheet.fit_to_pages(1, 0)
    sheet.repeat_rows(0)
    sheet.set_footer("&C&P / &N")
    for column, name in enumerate(table.columns):
        sheet.write_string(0, column, name, bold)
        sheet.set_column(column, column, WIDTHS.get(name, 12))


def _text(cell: Cell) -> str:
    if isinstance(cell, str):
        return defused(cell)
    return "" if cell is None else f"{cell:f}" if isinstance(cell, Decimal) else str(cell)
