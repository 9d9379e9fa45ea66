"""Tables as CSV and Excel.

Names of users and jobs are typed by anybody: none of them can become a formula. Pure.
"""

import csv
import io
from collections.abc import Iterable, Sequence
from decimal import Decimal

import xlsxwriter
from xlsxwriter.utility import xl_range
from xlsxwriter.workbook import Workbook
from xlsxwriter.worksheet import Worksheet

from fleetwatch.figures.pricing import exact_sum
from fleetwatch.lib.csv_files.formulas import defused
from fleetwatch.reports.exports.cover import Cover
from fleetwatch.reports.exports.cover_sheet import write_cover
from fleetwatch.reports.exports.excel_cells import formats, kind_of, write_of_column
from fleetwatch.reports.exports.headings import heading, is_summed
from fleetwatch.reports.exports.tables import Cell, Table

WIDTHS = {
    "job": 26,
    "name": 26,
    "user": 16,
    "team": 16,
    "team_name": 20,
    "gpu_model": 18,
    "label": 26,
    "month": 16,
    "from_utc": 17,
    "to_utc": 17,
}
NOTE_BELOW = 3  # rows under the last: the total, and one of air


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
    """The cover, where there is one, then a sheet per table: a head in words that stays, filters,
    numbers as numbers, moments as dates, text as text only, and a row of totals.
    """
    out = io.BytesIO()
    with xlsxwriter.Workbook(out, {"in_memory": True}) as book:
        if cover is not None:
            write_cover(book, cover)
        for table in tables:
            _write_table(book, table)
    return out.getvalue()


def _write_table(book: Workbook, table: Table) -> None:
    sheet = book.add_worksheet(table.name)
    _lay_out(book, sheet, table)
    plain = formats(book)
    for number, row in enumerate(table.rows, start=1):
        for at, (cell, column) in enumerate(zip(row, table.columns, strict=True)):
            write_of_column(sheet, (number, at), cell, column, plain)
    if len(table.rows) > 1:
        _write_total(book, sheet, table)
    if table.note:
        sheet.write_string(len(table.rows) + NOTE_BELOW, 0, table.note)


def _write_total(book: Workbook, sheet: Worksheet, table: Table) -> None:
    """What the lines sum to, below them: sums that a reader can follow, with what they come to for
    whoever does not calculate.
    """
    bold = formats(book, bold=True)
    last = len(table.rows) + 1
    sheet.write_string(last, 0, "Total", book.add_format({"bold": True}))
    for at, column in enumerate(table.columns):
        amounts = [row[at] for row in table.rows if isinstance(row[at], Decimal)]
        if at and amounts and is_summed(column):
            total = exact_sum(each for each in amounts if isinstance(each, Decimal))
            of = xl_range(1, at, last - 1, at)
            sheet.write_formula(last, at, f"=SUM({of})", bold[kind_of(column)], float(total))


def _lay_out(book: Workbook, sheet: Worksheet, table: Table) -> None:
    """What is on screen and on paper beside the rows."""
    head = book.add_format({"bold": True, "text_wrap": True, "valign": "top"})
    sheet.freeze_panes(1, 0)
    sheet.autofilter(0, 0, len(table.rows), len(table.columns) - 1)
    sheet.set_landscape()
    sheet.set_paper(9)  # A4
    sheet.fit_to_pages(1, 0)
    sheet.repeat_rows(0)
    sheet.set_footer("&C&P / &N")
    for at, name in enumerate(table.columns):
        sheet.write_string(0, at, table.heads.get(name) or heading(name), head)
        sheet.set_column(at, at, WIDTHS.get(name, 14))


def _text(cell: Cell) -> str:
    if isinstance(cell, str):
        return defused(cell)
    return "" if cell is None else f"{cell:f}" if isinstance(cell, Decimal) else str(cell)
