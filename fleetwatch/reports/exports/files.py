"""Tables as CSV and Excel.

Names of users and jobs are typed by anybody: none of them can become a formula. Pure.
"""

import csv
import io
from collections.abc import Iterable, Sequence
from decimal import Decimal

import xlsxwriter
from xlsxwriter.chart import Chart
from xlsxwriter.format import Format
from xlsxwriter.workbook import Workbook
from xlsxwriter.worksheet import Worksheet

from fleetwatch.lib.csv_files.formulas import defused
from fleetwatch.reports.exports.cover import Cover
from fleetwatch.reports.exports.tables import Cell, Table

# Excel's limit of characters; a longer text would make the whole file unreadable
LONGEST_CELL = 32_767
COVER = "Cover"
TITLE = {"bold": True, "font_size": 16}
MAX_BARS = 15
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
            _write_cover(book, cover, tables)
        bold = book.add_format({"bold": True})
        money = book.add_format({"num_format": "#,##0.00"})
        hours = book.add_format({"num_format": "#,##0.0"})
        for table in tables:
            sheet = book.add_worksheet(table.name)
            _lay_out(sheet, table, bold)
            for number, row in enumerate(table.rows, start=1):
                for column, cell in enumerate(row):
                    is_hours = table.columns[column].endswith("gpu_hours")
                    _write(sheet, (number, column), cell, hours if is_hours else money)
    return out.getvalue()


def _write_cover(book: Workbook, cover: Cover, tables: Sequence[Table]) -> None:
    sheet = book.add_worksheet(COVER)
    money = book.add_format({"num_format": "#,##0.00", "align": "left"})
    bold = book.add_format({"bold": True})
    sheet.hide_gridlines(2)
    sheet.set_column(0, 0, 30)
    sheet.set_column(1, 1, 74)
    sheet.write_string(0, 0, cover.title[:LONGEST_CELL], book.add_format(TITLE))
    for row, (label, value) in enumerate(cover.facts, start=2):
        sheet.write_string(row, 0, label, bold)
        _write(sheet, (row, 1), value, money)
    first_word = len(cover.facts) + 4
    sheet.write_string(first_word - 1, 0, "What the columns mean", bold)
    for row, pair in enumerate(cover.words, start=first_word):
        for column, text in enumerate(pair):
            sheet.write_string(row, column, text)
    charted = [table for table in tables if table.name == cover.charted and table.rows]
    if charted:
        sheet.insert_chart(1, 3, _chart(book, charted[0], cover.called))


def _chart(book: Workbook, table: Table, called: str) -> Chart:
    """The first lines of the table, which are its dearest, as bars of dollars."""
    last = min(len(table.rows), MAX_BARS)
    name, cost = (list(table.columns).index(column) for column in (called, "cost_usd"))
    chart: Chart = book.add_chart({"type": "bar"})
    chart.add_series(
        {
            "name": "Cost in US dollars",
            "categories": [table.name, 1, name, last, name],
            "values": [table.name, 1, cost, last, cost],
        }
    )
    chart.set_title({"name": f"{table.name} by cost, US dollars"})
    chart.set_legend({"none": True})
    chart.set_y_axis({"reverse": True})
    chart.set_size({"width": 640, "height": 120 + 24 * last})
    return chart


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


def _write(sheet: Worksheet, place: tuple[int, int], cell: Cell, amount: Format) -> None:
    """Counts have no format, amounts theirs."""
    if isinstance(cell, str):
        # never read as a formula, a link or a number, whatever it looks like
        sheet.write_string(*place, cell[:LONGEST_CELL])
    elif cell is not None:
        sheet.write_number(*place, float(cell), amount if isinstance(cell, Decimal) else None)


def _text(cell: Cell) -> str:
    if isinstance(cell, str):
        return defused(cell)
    return "" if cell is None else f"{cell:f}" if isinstance(cell, Decimal) else str(cell)
