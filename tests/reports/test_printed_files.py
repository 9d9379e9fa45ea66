"""Files say of each line what its page prints, to the cent, beside every digit."""

from decimal import Decimal

import pytest

from fleetwatch.dashboard.report_pages import report_context
from fleetwatch.reports import download
from tests.reports.factories import newest
from tests.reports.test_download import read, sheets
from tests.reports.test_focus import a_fleets_rows

pytestmark = pytest.mark.django_db


def cents(lines, name):
    """The cells of the column that have one."""
    return [Decimal(line[name]) for line in lines if line[name]]


def test_the_fleets_file_has_the_cents_of_its_page_line_by_line_and_in_all():
    """Rates that do not divide: what is rounded line by line is no sum of them."""
    a_fleets_rows()
    page = report_context(newest())["content"]

    lines = read(download.csv(newest()))

    rows = [*page["teams"], *(part for line in report_context(newest())["own_lines"]
                              for part in line["parts"])]  # fmt: skip
    assert cents(lines, "cost_to_the_cent_usd") == [row["printed"]["cost_usd"] for row in rows]
    total = page["total"]["printed"]
    for name in ("cost_usd", "wasted_usd"):
        column = cents(lines, name.replace("_usd", "_to_the_cent_usd"))
        assert sum(column) == total[name]


def test_what_leads_to_what_is_paid_is_in_the_file_as_the_page_prints_it():
    a_fleets_rows()
    context = report_context(newest())
    page = context["content"]

    lines = [line for line in read(download.csv(newest())) if line["beside_usd"]]

    chain = [
        *(line["printed"]["cost_usd"] for line in page["adjustments"]),
        *(line["printed"]["missing_usd"] for line in page["undelivered"]),
        *(line["printed"]["rate_book_differs_usd"] for line in page["contract_lines"]),
        *(line["printed"]["booked_usd"] for line in page["invoice_lines"]),
        *(line["printed"]["booked_usd"] for line in page["billed_lines"]),
    ]
    assert cents(lines, "beside_to_the_cent_usd") == chain
    end = page["printed"]["booked_usd"]
    assert page["total"]["printed"]["cost_usd"] + sum(chain) == end


def test_a_statements_file_has_the_cents_of_its_page():
    a_fleets_rows()
    page = report_context(newest("vision"), size=100)

    lines = read(download.csv(newest("vision")))

    shown = {
        (line["job"], line["gpu_model"]): line["printed"]["cost_usd"]
        for line in (*page["lines"], *page["unnamed"])
    }
    assert {
        (line["job"], line["gpu_model"]): Decimal(line["cost_to_the_cent_usd"]) for line in lines
    } == shown
    total = page["content"]["total"]["printed"]
    assert sum(cents(lines, "cost_to_the_cent_usd")) == total["cost_usd"]


def test_the_workbooks_cover_says_the_sums_of_the_page():
    a_fleets_rows()
    total = report_context(newest())["content"]["total"]["printed"]

    book = sheets(download.xlsx(newest()))

    facts = {row[0]: row[1] for row in book["Cover"] if len(row) > 1}
    assert (facts["Cost"], facts["Of that, wasted"]) == (total["cost_usd"], total["wasted_usd"])
