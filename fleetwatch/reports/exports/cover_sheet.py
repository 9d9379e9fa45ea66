"""The cover on its sheet of the workbook: title, facts, a chart of the dearest, words. Pure."""

from collections.abc import Sequence

from xlsxwriter.chart import Chart
from xlsxwriter.workbook import Workbook
from xlsxwriter.worksheet import Worksheet

from fleetwatch.reports.exports.cover import Cover
from fleetwatch.reports.exports.excel_cells import LONGEST_CELL, write_cell
from fleetwatch.reports.exports.tables import Table

SHEET = "Cover"
TITLE = {"bold": True, "font_size": 16}
AMOUNT = {"num_format": "#,##0.00", "align": "left"}
HEAD_ROWS = 2  # the title, and a row of air
LABEL_WIDTH = 30  # characters
TEXT_WIDTH = 74
CHART_PLACE = (1, 3)
MAX_BARS = 15


def write_cover(book: Workbook, cover: Cover, tables: Sequence[Table]) -> None:
    """Adds the cover as the next sheet; the table that its chart shows is one of `tables`."""
    sheet = book.add_worksheet(SHEET)
    sheet.hide_gridlines(2)  # on screen and on paper
    sheet.set_landscape()
    sheet.set_paper(9)  # A4
    sheet.fit_to_pages(1, 0)
    sheet.set_column(0, 0, LABEL_WIDTH)
    sheet.set_column(1, 1, TEXT_WIDTH)
    sheet.write_string(0, 0, cover.title[:LONGEST_CELL], book.add_format(TITLE))
    _write_facts(book, sheet, cover)
    for table in tables:
        if table.name == cover.charted and table.rows:
            sheet.insert_chart(*CHART_PLACE, _chart(book, table, cover.called))


def _write_facts(book: Workbook, sheet: Worksheet, cover: Cover) -> None:
    """The facts under the title, and under them what words mean."""
    amount = book.add_format(AMOUNT)
    bold = book.add_format({"bold": True})
    for row, (label, value) in enumerate(cover.facts, start=HEAD_ROWS):
        sheet.write_string(row, 0, label, bold)
        write_cell(sheet, (row, 1), value, amount)
    words_at = HEAD_ROWS + len(cover.facts) + 1
    sheet.write_string(words_at, 0, "What the columns mean", bold)
    for row, (word, meaning) in enumerate(cover.words, start=words_at + 1):
        sheet.write_string(row, 0, word)
        sheet.write_string(row, 1, meaning)


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
