"""/api/v1/invoices: which stand, and a month's difference to the ledger by its reasons."""

import pytest

from fleetwatch.finance.invoices import import_invoice
from tests.costs.factories import HOUR_MS
from tests.reports.factories import NOW, a_fleet

pytestmark = pytest.mark.django_db


def an_invoice(month="2026-10"):
    """Four hours H100 at $4.50; a support fee that is no GPU."""
    content = b"gpu_model,gpu_hours,description,amount,issuer\nH100,4,,18,Acme\n,,Support,2,Acme\n"
    return import_invoice(content, month, now=NOW, by="ann", file_name="october.csv")


def test_the_list_has_every_invoice_the_newest_month_first(api):
    a_fleet()
    an_invoice("2026-09")
    an_invoice()

    first = api.get("/api/v1/invoices?limit=1").json()
    second = api.get(f"/api/v1/invoices?limit=1&cursor={first['next_cursor']}").json()

    [row] = first["rows"]
    assert (row["month"], row["issuer"], row["file_name"], row["rows"], row["billed_usd"]) == (
        "2026-10",
        "Acme",
        "october.csv",
        2,
        20.0,
    )
    assert (second["rows"][0]["month"], second["next_cursor"]) == ("2026-09", None)


@pytest.mark.parametrize(
    ("start", "end", "months"),
    [
        ("2026-09-01", "2026-10-01", ["2026-09"]),
        ("2026-09-30", "2026-10-01T00:01", ["2026-10", "2026-09"]),
        ("2026-10-31", "2026-11-05", ["2026-10"]),
        ("2026-11-01", "2026-11-05", []),
    ],
)
def test_a_period_narrows_the_list_to_months_of_which_it_has_a_part(api, start, end, months):
    a_fleet()
    an_invoice("2026-09")
    an_invoice()

    rows = api.get(f"/api/v1/invoices?from={start}&to={end}").json()["rows"]

    assert [row["month"] for row in rows] == months


def test_a_month_says_the_difference_line_by_line_and_lines_sum_to_the_total(api):
    a_fleet()
    an_invoice()

    answer = api.get("/api/v1/invoices/2026-10").json()

    matched, unmatched, unbilled = answer["rows"]
    # the ledger has 4 h H100 at $4, and 3 h L4 at $1 of which one was unobserved and none is billed
    assert (matched["kind"], matched["gpu_model"], matched["billed_ms"], matched["ledger_ms"]) == (
        "matched",
        "H100",
        4 * HOUR_MS,
        4 * HOUR_MS,
    )
    assert (
        matched["difference_usd"],
        matched["rate_usd"],
        matched["hours_usd"],
        matched["unobserved_usd"],
    ) == (2.0, 2.0, 0.0, 0.0)
    assert (
        unmatched["kind"],
        unmatched["other_usd"],
        unmatched["gpu_model"],
        unmatched["billed_ms"],
    ) == ("unmatched", 2.0, None, None)
    assert (unbilled["kind"], unbilled["ledger_usd"], unbilled["unobserved_ms"]) == (
        "unbilled",
        3.0,
        HOUR_MS,
    )
    total = answer["total"]
    assert (
        total["billed_usd"],
        total["ledger_usd"],
        total["difference_usd"],
        total["open_usd"],
    ) == (20.0, 19.0, 1.0, 1.0)
    assert (answer["issuers"], answer["is_over"], answer["unpriced_ms"]) == (["Acme"], True, 0)


def test_lines_come_by_pages(api):
    a_fleet()
    an_invoice()

    first = api.get("/api/v1/invoices/2026-10?limit=2").json()
    second = api.get(f"/api/v1/invoices/2026-10?limit=2&cursor={first['next_cursor']}").json()

    assert [len(page["rows"]) for page in (first, second)] == [2, 1]
    assert first["total"] == second["total"]


def test_a_month_without_an_invoice_has_no_lines(api):
    a_fleet()

    answer = api.get("/api/v1/invoices/2026-10").json()

    assert (answer["rows"], answer["issuers"], answer["total"]["difference_usd"]) == ([], [], 0.0)


@pytest.mark.parametrize("month", ["october", "2026-13", "2099-01", "2026-10'", "%F0%9F%98%80"])
def test_what_is_no_month_of_the_ledger_is_404(api, month):
    answer = api.get(f"/api/v1/invoices/{month}")

    assert (answer.status_code, answer.json()["field"]) == (404, "month")
