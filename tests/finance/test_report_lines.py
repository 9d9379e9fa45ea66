"""What the fleet's report says beside the ledger: commitments for GPUs that were not there, and
booked differences to invoices.
"""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from fleetwatch.costs.models import Commitment
from fleetwatch.dashboard.report_pages import report_context
from fleetwatch.finance import bookings
from fleetwatch.finance.committing import commit, withdraw_commitment
from fleetwatch.jobs.models import Job
from fleetwatch.reports import download
from fleetwatch.reports.models import InvoiceAdjustment
from tests.costs.factories import HOUR_MS, LONG_AGO, a_gpu
from tests.reports.factories import (
    HOUR,
    NOW,
    OCTOBER,
    a_fleet,
    an_adjustment,
    book,
    book_everything,
    computed,
    newest,
)
from tests.reports.test_download import read, sheets

pytestmark = pytest.mark.django_db
NOVEMBER = datetime(2026, 11, 1, tzinfo=UTC)


def a_commitment(model, *, gpus=2, hours=5):
    """By default 2 GPUs over October's first five hours: 4 of 10 GPU-hours were there, 3 of them
    held, at $4.
    """
    return commit(
        Commitment(
            gpu_model=model,
            gpus=gpus,
            name="2026-17",
            valid_from=LONG_AGO,
            valid_to=OCTOBER + hours * HOUR,
            price_per_gpu_hour=Decimal("4.50"),
            region="",
        ),
        now=NOW,
    )


def test_without_commitments_and_bookings_what_is_paid_is_the_fleets_cost():
    a_fleet()

    computed()

    fleet = newest().content
    assert (fleet["commitments"], fleet["invoice_lines"], fleet["not_delivered_usd"]) == (
        [],
        [],
        "0.000000",
    )
    assert fleet["paid_usd"] == fleet["total"]["cost_usd"] == "19.000000"


def test_a_commitment_is_told_with_what_of_it_was_not_there():
    big, _ = a_fleet()
    a_commitment(big.model)

    computed()

    fleet = newest().content
    [line] = fleet["commitments"]
    assert (line["name"], line["gpus"], line["used_ms"], line["unheld_ms"], line["missing_ms"]) == (
        "2026-17", 2, 3 * HOUR_MS, HOUR_MS, 6 * HOUR_MS,
    )  # fmt: skip
    assert (line["committed_usd"], line["missing_usd"], line["unused_usd"]) == (
        "45.000000",
        "27.000000",
        "31.500000",
    )
    assert (line["rate_book_usd"], line["rate_book_differs_usd"]) == ("16.000000", "2.000000")
    assert (fleet["total"]["cost_usd"], fleet["not_delivered_usd"], fleet["paid_usd"]) == (
        "19.000000",
        "27.000000",
        "46.000000",
    )


def test_a_month_without_gpu_time_is_reported_if_something_was_paid_beside_it():
    big, _ = a_fleet()
    assert (
        computed("2026-11").note
        == "the ledger has no GPU time in this month, and nothing was paid beside it"
    )

    commit(
        Commitment(
            gpu_model=big.model,
            gpus=2,
            name="17",
            valid_from=NOVEMBER,
            valid_to=NOVEMBER + 3 * HOUR,
            price_per_gpu_hour=Decimal(5),
        ),
        now=NOW,
    )
    run = computed("2026-11", now=NOW + HOUR)

    fleet = newest().content
    assert (run.state, fleet["month"], fleet["teams"], fleet["own_lines"]) == (
        "done",
        "2026-11",
        [],
        [],
    )
    assert (fleet["total"]["cost_usd"], fleet["not_delivered_usd"], fleet["paid_usd"]) == (
        "0.000000",
        "30.000000",
        "30.000000",
    )
    assert fleet["comparison"]["difference_usd"] == "-19.000000"


def test_a_month_without_gpu_time_tells_what_corrects_closed_ones_and_what_was_booked():
    big, _ = a_fleet()
    an_adjustment(big, HOUR_MS, job=Job.objects.get(key="slurm/della/1"), booked_at=NOVEMBER)

    computed("2026-11")

    assert (newest().content["adjusted_usd"], newest("nlp").content["adjusted_usd"]) == (
        "4.000000",
        "4.000000",
    )


def test_no_statement_has_lines_beside():
    big, _ = a_fleet()
    a_commitment(big.model)

    computed()

    assert "commitments" not in newest("nlp").content
    assert newest("nlp").content["total"]["cost_usd"] == "9.000000"


def test_a_booking_is_a_line_of_the_report_and_what_is_paid_is_the_invoice():
    a_fleet()
    book_everything()

    computed()

    fleet = newest().content
    assert [
        (line["label"], line["reason"], line["rate_usd"], line["cost_usd"])
        for line in fleet["invoice_lines"]
    ] == [
        ("H100", "=signed", "2.000000", "2.000000"),
        ("L4", "=signed", "0.000000", "-3.000000"),
    ]
    assert (fleet["total"]["cost_usd"], fleet["invoiced_usd"], fleet["paid_usd"]) == (
        "19.000000",
        "-1.000000",
        "18.000000",
    )


def test_each_change_of_them_makes_a_new_version():
    big, _ = a_fleet()
    computed()
    commitment = a_commitment(big.model)
    computed(now=NOW + HOUR)
    withdraw_commitment(commitment)
    computed(now=NOW + 2 * HOUR)
    book_everything()
    computed(now=NOW + 3 * HOUR)
    for booking in InvoiceAdjustment.objects.all():
        bookings.withdraw(booking, by="ann", now=NOW)
    run = computed(now=NOW + 4 * HOUR)

    assert run.note == ""
    assert newest().version == 5
    assert newest("nlp").version == 1


def test_excel_has_amounts_by_contract_beside_those_at_the_rates():
    big, _ = a_fleet()
    a_commitment(big.model)
    computed()

    book = sheets(download.xlsx(newest()))

    head, line = book["Commitments"]
    assert head[-6:] == [
        "There, GPU-hours",
        "By contract, US dollars per GPU-hour",
        "By contract, US dollars",
        "At the rates, US dollars per GPU-hour",
        "At the rates, US dollars",
        "By contract less at the rates, US dollars",
    ]
    assert line[-6:] == [4, Decimal("4.5"), 18, 4, 16, 2]
    facts = {row[0]: row[1] for row in book["Cover"] if len(row) > 1}
    # $19, and 6 GPU-hours at $4.50 that were not delivered; by contract $2 more
    assert (facts["Month at the rates"], facts["Month due by contract"]) == (46, 48)


def test_excel_has_a_sheet_for_each_and_no_formula():
    big, _ = a_fleet()
    a_commitment(big.model)
    book_everything()
    computed()

    found = sheets(download.xlsx(newest()))

    assert "2026-17" in found["Commitments"][1]
    assert "=signed" in found["Invoice"][1]


def test_the_csv_leads_from_the_cost_to_what_is_paid_by_contract_as_page_and_excel_do():
    """$19 at the rates, 6 hours not delivered at $4.50, and 4 that were there at $0.50 more."""
    big, _ = a_fleet()
    a_commitment(big.model)
    computed()

    lines = read(download.csv(newest()))
    page = report_context(newest())["content"]
    head, *_, total = sheets(download.xlsx(newest()))["Teams"]

    assert [
        (line["line"], line["beside"], line["beside_usd"]) for line in lines if line["beside"]
    ] == [
        ("commitment not delivered", "2026-17", "27.000000"),
        ("commitment by contract less rates", "2026-17", "2.000000"),
    ]
    cost_usd, beside_usd = (
        sum(Decimal(line[name] or 0) for line in lines) for name in ("cost_usd", "beside_usd")
    )
    assert (cost_usd, beside_usd, page["sums"]["contract_usd"]) == (19, 29, 48)
    assert 19 in total
    assert head[-2:] == [
        "Beside the cost, US dollars",
        "Beside the cost, to the cent, US dollars",
    ]
    assert total[-2:] == [29, 29]


def test_a_commitment_that_lacked_nothing_has_no_line_of_what_was_not_delivered():
    """Of 1 GPU over October's first four hours all 4 GPU-hours were there, at $0.50 more each."""
    big, _ = a_fleet()
    a_commitment(big.model, gpus=1, hours=4)
    computed()

    page = report_context(newest())["content"]

    assert [
        (line["line"], line["beside_usd"])
        for line in read(download.csv(newest()))
        if line["beside"]
    ] == [("commitment by contract less rates", "2.000000")]
    assert (page["undelivered"], len(page["contract_lines"])) == ([], 1)


def test_a_commitment_of_which_nothing_was_there_has_no_line_of_its_contract_price():
    """1 B200 over October's first hour, of which the ledger has no second."""
    a_fleet()
    a_commitment(a_gpu(model="B200", node="gpu-03").model, gpus=1, hours=1)
    computed()

    page = report_context(newest())["content"]

    assert [
        (line["line"], line["beside_usd"])
        for line in read(download.csv(newest()))
        if line["beside"]
    ] == [("commitment not delivered", "4.500000")]
    assert (len(page["undelivered"]), page["contract_lines"]) == (1, [])


def the_chain():
    """The lines of the CSV that lead from the cost to what is paid."""
    return [
        (line["line"], line["beside"], line["beside_usd"])
        for line in read(download.csv(newest()))
        if line["beside"]
    ]


def test_a_booking_of_other_gpus_leaves_the_contract_lines_as_they_are():
    """Of the L4, of which no invoice bills the ledger's $3, those are booked off."""
    big, _ = a_fleet()
    a_commitment(big.model)
    book("L4")
    computed()

    page = report_context(newest())["content"]
    cover = {row[0]: row[1] for row in sheets(download.xlsx(newest()))["Cover"] if len(row) > 1}

    assert the_chain() == [
        ("commitment not delivered", "2026-17", "27.000000"),
        ("commitment by contract less rates", "2026-17", "2.000000"),
        ("invoice booked", "L4", "-3.000000"),
    ]
    assert page["sums"] == {"rates_usd": 46, "contract_usd": 48, "booked_usd": 45}
    assert [line["printed"]["rate_book_differs_usd"] for line in page["contract_lines"]] == [2]
    assert (page["billed_lines"], page["commitments"][0]["is_invoiced"]) == ([], False)
    names = ("Month at the rates", "Month due by contract", "With what was booked of invoices")
    assert [cover[name] for name in names] == [46, 48, 45]


def test_a_booking_of_a_commitments_gpus_takes_its_contract_price_back_and_says_so():
    """The H100 are billed at $4.50, $2 above the ledger: the contract's $2 are in that line."""
    big, _ = a_fleet()
    a_commitment(big.model)
    book("H100")
    computed()

    page = report_context(newest())["content"]

    assert the_chain() == [
        ("commitment not delivered", "2026-17", "27.000000"),
        ("commitment by contract less rates", "2026-17", "2.000000"),
        ("invoice booked", "H100", "2.000000"),
        ("contract price is in the invoice's line", "2026-17", "-2.000000"),
    ]
    assert page["sums"] == {"rates_usd": 46, "contract_usd": 48, "booked_usd": 48}
    assert [line["printed"]["booked_usd"] for line in page["billed_lines"]] == [-2]


def test_the_csv_leads_on_to_the_invoice_where_one_was_booked():
    a_fleet()
    book_everything()
    computed()

    beside = [line for line in read(download.csv(newest())) if line["beside"]]

    assert [(line["line"], line["beside"], line["beside_usd"]) for line in beside] == [
        ("invoice booked", "H100", "2.000000"),
        ("invoice booked", "L4", "-3.000000"),
    ]
    assert {line["cost_usd"] for line in beside} == {""}
