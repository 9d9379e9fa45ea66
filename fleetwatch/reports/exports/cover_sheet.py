"""The cover on its sheet of the workbook: title, facts, words, and beside them a chart of the
dearest over its numbers. Pure.
"""

from collections.abc import Sequence
from decimal import Decimal

from xlsxwriter.chart import Chart
from xlsxwriter.workbook import Workbook
from xlsxwriter.worksheet import Worksheet

from fleetwatch.figures.pricing import CENT, exact_sum, usd
from fleetwatch.reports.exports.cover import Cover
from fleetwatch.reports.exports.excel_cells import LONGEST_CELL, write_cell
from fleetwatch.reports.exports.tables import Cell

SHEET = "Cover"
TITLE = {"bold": True, "font_size": 16}
AMOUNT = {"num_format": "#,##0.00", "align": "left"}
HEAD_ROWS = 2  # the title, and a row of air
LABEL_WIDTH = 30  # characters
TEXT_WIDTH = 74
CHART_PLACE = (1, 3)
CHART_WIDTH = 640  # pixels
BAR_COLUMNS = (3, 4)  # of their names and their dollars
BAR_WIDTHS = (34, 17)  # characters
ROW_PIXELS = 20  # of a sheet's row
MAX_BARS = 15
Bar = tuple[str, Decimal]  # what it is called, and its dollars


def write_cover(book: Workbook, cover: Cover) -> None:
    """Adds the cover as the next sheet."""
    sheet = book.add_worksheet(SHEET)
    sheet.hide_gridlines(2)  # on screen and on paper
    sheet.set_landscape()
    sheet.set_paper(9)  # A4
    sheet.fit_to_pages(1, 0)
    sheet.set_column(0, 0, LABEL_WIDTH)
    sheet.set_column(1, 1, TEXT_WIDTH)
    sheet.write_string(0, 0, cover.title[:LONGEST_CELL], book.add_format(TITLE))
    _write_facts(book, sheet, cover)
    if cover.bars:
        _write_chart(book, sheet, cover)


def _write_facts(book: Workbook, sheet: Worksheet, cover: Cover) -> None:
    """The facts under the title, and under them what words mean."""
    amount = book.add_format(AMOUNT)
    bold = book.add_format({"bold": True})
    for row, (label, value) in enumerate(cover.facts, start=HEAD_ROWS):
        sheet.write_string(row, 0, label, bold)
        write_cell(sheet, (row, 1), _to_the_cent(value), amount)
    words_at = HEAD_ROWS + len(cover.facts) + 1
    sheet.write_string(words_at, 0, "What the columns mean", bold)
    for row, (word, meaning) in enumerate(cover.words, start=words_at + 1):
        sheet.write_string(row, 0, word)
        sheet.write_string(row, 1, meaning)


def _to_the_cent(value: Cell) -> Cell:
    """An amount or hours as the cover shows them: the exact ones are on the other sheets."""
    return usd(value, CENT) if isinstance(value, Decimal) else value


def _write_chart(book: Workbook, sheet: Worksheet, cover: Cover) -> None:
    """The chart, and under it the numbers that it shows."""
    bars = most_of(cover.bars)
    height = 120 + 24 * len(bars)
    rows = _write_bars(book, sheet, bars, below=height)
    chart: Chart = book.add_chart({"type": "bar"})
    name, value = ([SHEET, rows.start, at, rows.stop - 1, at] for at in BAR_COLUMNS)
    chart.add_series({"name": "Cost in US dollars", "categories": name, "values": value})
    chart.set_title({"name": f"{cover.charted} by cost, US dollars"})
    chart.set_legend({"none": True})
    chart.set_y_axis({"reverse": True})
    chart.set_size({"width": CHART_WIDTH, "height": height})
    sheet.insert_chart(*CHART_PLACE, chart)


def _write_bars(book: Workbook, sheet: Worksheet, bars: Sequence[Bar], *, below: int) -> range:
    """The rows of the sheet in which the bars' names and dollars stand: `below` so many pixels."""
    amount = book.add_format(AMOUNT)
    first = CHART_PLACE[0] + -(-below // ROW_PIXELS) + 1
    for row, (name, dollars) in enumerate(bars, start=first):
        write_cell(sheet, (row, BAR_COLUMNS[0]), name, amount)
        write_cell(sheet, (row, BAR_COLUMNS[1]), usd(dollars, CENT), amount)
    for at, width in zip(BAR_COLUMNS, BAR_WIDTHS, strict=True):
        sheet.set_column(at, at, width)
    return range(first, first + len(bars))


def most_of(bars: Sequence[Bar]) -> list[Bar]:
    """The bars, of more than MAX_BARS the dearest and what the others come to."""
    if len(bars) <= MAX_BARS:
        return list(bars)
    ordered = sorted(bars, key=lambda bar: -bar[1])
    others = ordered[MAX_BARS - 1 :]
    sum_usd = exact_sum(usd for _, usd in others)
    return [*ordered[: MAX_BARS - 1], (f"{len(others):,} others", sum_usd)]
