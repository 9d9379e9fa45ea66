"""The invoice page: everybody reads it, admins import, map, book and withdraw."""

import re
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from fleetwatch.costs.models import Commitment
from fleetwatch.dashboard import numbers
from fleetwatch.finance.committing import commit
from fleetwatch.finance.invoice_csv import MAX_BYTES
from fleetwatch.ledger.models import ClosedMonth
from fleetwatch.reports.models import Invoice, InvoiceAdjustment, InvoiceSKU, Report
from tests.dashboard import factories
from tests.markup import tight

pytestmark = pytest.mark.django_db
PAGE = "/reports/2026-11/invoice"
ACTIONS = ["import", "remove", "sku", "book", "withdraw"]
FILE = b"sku,gpu_hours,amount\np5,1,3\n<b>disk,,1\n"


def text_of(response):
    return response.content.decode()


@pytest.fixture
def fleet():
    """One held GPU-hour of November at $2."""
    gpu = factories.gpu(factories.node())
    factories.rate("2.00")
    factories.entry(gpu, hours_ago=48, held_by=factories.job()).save()


def sent(admin, content=FILE, **fields):
    return admin.post(
        f"{PAGE}/import", {"file": SimpleUploadedFile("aws <1>.csv", content)} | fields, follow=True
    )


@pytest.mark.parametrize("path", [PAGE, *(f"{PAGE}/{action}" for action in ACTIONS)])
def test_a_stranger_is_sent_to_the_log_in(client, path):
    assert (client.get(path) if path == PAGE else client.post(path))["Location"].startswith(
        "/accounts/login/"
    )


@pytest.mark.parametrize("action", ACTIONS)
def test_a_viewer_reads_and_changes_nothing(viewer, action):
    assert viewer.post(f"{PAGE}/{action}").status_code == 403
    page = text_of(viewer.get(PAGE))
    assert "No invoice for 2026-11 yet" in page
    assert '<form class="form row' not in page


def test_the_example_file_could_be_imported(admin, fleet):
    page = text_of(admin.get(PAGE))
    example = admin.get(f"{PAGE}/example.csv").content

    assert 'id="skus"' not in page
    assert f'href="{PAGE}/example.csv"' in page
    assert "Imported: 1 row, $1,512.00." in text_of(sent(admin, example))


@pytest.mark.parametrize("month", ["2026-12", "2026-13", "soon"])
def test_a_month_that_is_none_is_not_found(viewer, month):
    assert viewer.get(f"/reports/{month}/invoice").status_code == 404


def test_an_invoice_is_imported_mapped_booked_and_the_booking_withdrawn(admin, fleet):
    page = text_of(sent(admin))
    assert "Imported: 2 rows, $4.00." in page
    assert "&lt;b&gt;disk" in page
    assert "<b>disk" not in page

    mapped = admin.post(
        f"{PAGE}/sku", {"sku": "p5", "gpu_model": "H100 SXM", "gpus": "1"}, follow=True
    )
    [line] = [each.line for each in mapped.context["lines"] if each.line.kind == "matched"]
    assert line.open.rate_usd == 1
    form = {
        "line": [line.key],
        "seen": mapped.context["reconciled"].fingerprint,
        "reason": "checked",
    }
    booked = admin.post(f"{PAGE}/book", form, follow=True)
    booking = InvoiceAdjustment.objects.get()
    assert (booking.amount_usd, booking.booked_by) == (1, "ann")
    assert "Booked 1 line in the report of 2026-11" in text_of(booked)

    withdrawn = admin.post(f"{PAGE}/withdraw", {"id": booking.pk}, follow=True)
    assert "withdrawn by ann" in text_of(withdrawn)
    admin.post(f"{PAGE}/sku", {"sku": "p5", "gpu_model": "", "gpus": "1"})
    assert not InvoiceSKU.objects.exists()
    admin.post(f"{PAGE}/remove", {"id": Invoice.objects.get().pk})
    assert not Invoice.objects.exists()


def test_another_file_replaces_only_when_that_is_said(admin, fleet):
    sent(admin)

    refused = sent(admin, b"sku,amount\np5,5\n")
    assert refused.status_code == 422
    assert "say that this one replaces it" in text_of(refused)
    assert "Replaced: 1 row," in text_of(sent(admin, b"sku,amount\np5,5\n", replace="on"))
    assert "This very file was imported already." in text_of(sent(admin, b"sku,amount\np5,5\n"))


def test_what_is_wrong_in_a_file_is_told_by_line_and_field(admin):
    response = sent(admin, b"sku,amount\np5,x\n")

    assert response.status_code == 422
    assert '<td class="num">2</td><td><code>amount</code></td>' in tight(text_of(response))


def test_of_a_bad_file_the_first_problems_their_count_and_what_was_sent_stay(admin, fleet):
    sent(admin)
    response = sent(admin, b"sku,amount,month\n" + b"p5,x,2026-01\n" * 15, replace="on")

    page = tight(text_of(response))
    assert "30 problems to fix, the first 20 of them here" in page
    assert page.partition('id="faults"')[2].partition("</table>")[0].count("<td") == 3 * 20
    assert "import it there, or correct the month" in page
    assert "You sent<b>aws &lt;1&gt;.csv</b>, of which nothing was imported." in page
    assert re.search(r'name="replace" checked', page)
    assert Invoice.objects.get().rows == 2  # the one that stood


def test_a_file_that_is_too_large_is_refused(admin):
    assert "larger than 20,000,000 bytes" in text_of(sent(admin, b"x" * (MAX_BYTES + 1)))


def test_a_booking_without_a_reason_keeps_what_was_chosen(admin, fleet):
    sent(admin, b"gpu_model,gpu_hours,amount\nH100 SXM,1,3\n")
    found = admin.get(PAGE).context["reconciled"]

    response = admin.post(
        f"{PAGE}/book", {"line": [found.lines[0].key], "seen": found.fingerprint, "reason": " "}
    )

    assert response.status_code == 422
    assert "Why is it booked?" in text_of(response)
    assert f'value="{found.lines[0].key}" aria-label="Book H100 SXM" checked' in tight(
        text_of(response)
    )


@pytest.mark.parametrize(
    ("action", "form", "status"),
    [
        ("import", {}, 422),
        ("sku", {"sku": "p5", "gpu_model": "moon", "gpus": "1"}, 422),
        ("sku", {"sku": "", "gpu_model": "H100 SXM", "gpus": "1"}, 422),
        ("sku", {"sku": "p5", "gpu_model": "H100 SXM", "gpus": "0"}, 422),
        ("sku", {"sku": "p5", "gpu_model": "H100 SXM", "gpus": "²"}, 422),
        ("book", {"reason": "x"}, 422),
        ("remove", {"id": "9" * 30}, 404),
        ("withdraw", {"id": "-1"}, 404),
        ("explode", {}, 404),
    ],
)
def test_what_cannot_be_done_is_said(admin, fleet, action, form, status):
    assert admin.post(f"{PAGE}/{action}", form).status_code == status


@pytest.mark.parametrize("month", ["2026-12", "9999-12", "soon"])
def test_nothing_is_booked_of_what_is_no_month(admin, month):
    assert (
        admin.post(
            f"/reports/{month}/invoice/book", {"line": ["x"], "seen": "x", "reason": "x"}
        ).status_code
        == 404
    )


def test_a_closed_months_booking_stays(admin, fleet):
    sent(admin, b"gpu_model,gpu_hours,amount\nH100 SXM,1,3\n")
    found = admin.get(PAGE).context["reconciled"]
    admin.post(
        f"{PAGE}/book", {"line": [found.lines[0].key], "seen": found.fingerprint, "reason": "x"}
    )
    start, end = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)
    ClosedMonth.objects.create(
        month=start.date(),
        start=start,
        end=end,
        policy=factories.policy(),
        closed_at=end,
        closed_by="ann",
    )

    response = admin.post(f"{PAGE}/withdraw", {"id": InvoiceAdjustment.objects.get().pk})

    assert response.status_code == 422
    assert "2026-11 is closed" in text_of(response)


def test_hours_say_what_the_invoice_covers_and_that_the_month_is_not_over(admin, fleet):
    sent(admin, b"gpu_model,gpu_hours,amount\nH100 SXM,2,4\n")

    page = tight(text_of(admin.get(PAGE)))

    assert "bills<span" in page
    assert "50 % of them, in" in page
    assert "ledger: 1–19 Nov 2026; invoice: the same days at most" in page
    assert "Billed until 19 Nov at most:" in page


@pytest.mark.parametrize(("amount", "is_chosen"), [("2.10", True), ("2.11", False)])
def test_what_differs_by_more_than_a_twentieth_is_not_chosen_by_itself(
    admin, fleet, amount, is_chosen
):
    """The ledger has an hour at $2."""
    sent(admin, f"gpu_model,gpu_hours,amount\nH100 SXM,1,{amount}\n".encode())

    answer = admin.get(PAGE)

    assert len(answer.context["ticked"]) == is_chosen
    assert ("more than 5 % apart" in tight(text_of(answer))) != is_chosen


def test_the_ledger_and_each_reason_sum_to_the_invoice(admin, fleet):
    """The ledger has an hour at $2; billed are two at $1.50, and support for $7: $8 more of it."""
    sent(admin, b"gpu_model,description,gpu_hours,amount\nH100 SXM,,2,3\n,Support,,7\n")

    answer = admin.get(PAGE)
    sums = answer.context["sums"]

    amounts = {name: usd for name, _, usd in sums["reasons"]}
    assert amounts == {"hours": 2, "rate": -1, "unmatched": 7}
    assert (sums["ledger_usd"], sums["billed_usd"]) == (2, 10)
    leading = "The invoice bills $10.00: $8.00 more than the ledger"
    assert leading in tight(text_of(answer))
    assert "nothing in the ledger stands for it" in tight(text_of(answer))
    assert "alone" not in tight(text_of(answer)).partition("<main")[2]


def test_the_button_says_what_the_chosen_lines_come_to(admin, fleet):
    sent(admin, b"gpu_model,gpu_hours,amount\nH100 SXM,1,1.95\n")
    found = admin.get(PAGE)
    empty = admin.post(
        f"{PAGE}/book",
        {"line": [], "seen": found.context["reconciled"].fingerprint, "reason": " "},
    )

    assert "Book<span data-sum>−$0.05</span>" in tight(text_of(found))
    assert 'data-usd="-0.05' in text_of(found)
    assert "Book<span data-sum>$0.00</span>" in tight(text_of(empty))


def test_what_is_less_than_a_cent_is_no_reason_and_not_chosen(admin, fleet):
    sent(admin, b"gpu_model,gpu_hours,amount\nH100 SXM,1,2.001\n")

    answer = admin.get(PAGE)

    assert answer.context["ticked"] == []
    assert answer.context["sums"]["reasons"] == []
    assert "less than a cent" in text_of(answer)


def test_costs_and_pricing_lead_to_the_invoice_of_the_newest_month(admin, fleet):
    for path in ("/costs", "/pricing"):
        assert f'href="{PAGE}"' in text_of(admin.get(path))
    assert "Compare with the provider’s invoice of November 2026" in words(admin.get("/costs"))


def test_a_line_shows_what_an_hour_is_by_invoice_ledger_and_contract(admin, fleet):
    make = Commitment(
        name="2026-17",
        gpu_model=factories.gpu_model(),
        gpus=1,
        valid_from=datetime(2026, 1, 1, tzinfo=UTC),
        price_per_gpu_hour=Decimal("1.50"),
    )
    commit(make, now=factories.NOW)
    dear = b"gpu_model,gpu_hours,amount\nH100 SXM,1,3\n"
    sent(admin, dear)

    page = " ".join(re.sub("<[^>]*>", " ", text_of(admin.get(PAGE))).split())

    # one hour was there: $3 billed, $2 by the ledger, $1.50 by contract
    assert "invoice $3.00 ledger $2.00 contract $1.50" in page
    assert "billed about $1.50 above contract" in page
    leading = "The invoice bills $3.00: $1.00 more than the ledger · $1.50 of it above contract"
    assert leading in page
    assert "billed above contract : ask the issuer to credit it first" in page
    assert "H100 SXM billed above contract" in page  # and not ticked
    assert "Next: ask the issuer to credit $1.50" in page
    assert "− above contract hours that commitments cover" in page


def test_without_a_commitment_nothing_is_above_contract(admin, fleet):
    sent(admin, b"gpu_model,gpu_hours,amount\nH100 SXM,1,3\n")

    page = " ".join(re.sub("<[^>]*>", " ", text_of(admin.get(PAGE))).split())

    assert "invoice $3.00 ledger $2.00 contract none" in page
    assert "above contract" not in page


def test_what_neither_book_has_is_no_part_of_their_difference(admin, fleet):
    """Of a GPU that a commitment of $1.50 an hour paid for and that was not there."""
    make = Commitment(
        name="2026-17",
        gpu_model=factories.gpu_model(),
        gpus=1,
        valid_from=datetime(2026, 11, 1, tzinfo=UTC),
        price_per_gpu_hour=Decimal("1.50"),
    )
    commit(make, now=factories.NOW)
    sent(admin, b"gpu_model,description,gpu_hours,amount\nH100 SXM,,1,1.95\n,Support,,7\n")

    answer = admin.get(PAGE)
    sums = answer.context["sums"]
    [beside] = [each for each in answer.context["lines"] if each.is_beside_both]

    assert beside.reasons["committed_usd"] > 0
    assert {name: usd for name, _, usd in sums["reasons"]} == {
        "rate": Decimal("-0.05"),
        "unmatched": 7,
    }
    # $8.95 of the invoice - $2 of the ledger
    assert sums["open_usd"] == Decimal("6.95")
    page = tight(text_of(answer))
    assert "in the fleet’s report already: what is due by contract for GPUs that were not" in page
    assert "No report of the month is computed yet." in page
    assert f"due by contract, not on this invoice: {numbers.cents(sums['beside_usd'])}" in page
    # what was billed, nothing of it above contract, and what is due and was not billed
    assert sums["by_contract_usd"] == Decimal("8.95") + sums["beside_usd"]
    assert "what the bill should be by contract" in page


def test_what_the_report_counts_is_said_of_which_version_and_days(admin, fleet):
    make = Commitment(
        name="2026-17",
        gpu_model=factories.gpu_model(),
        gpus=1,
        valid_from=datetime(2026, 11, 1, tzinfo=UTC),
        price_per_gpu_hour=Decimal("1.50"),
    )
    commit(make, now=factories.NOW)
    Report.objects.create(
        kind="fleet",
        start=datetime(2026, 11, 1, tzinfo=UTC),
        end=datetime(2026, 11, 18, tzinfo=UTC),
        version=3,
        computed_at=factories.NOW,
        content={
            "not_delivered_usd": "741.81",
            "commitments": [{"rate_book_differs_usd": "-10.00", "is_invoiced": False}],
            "paid_usd": "900.00",
            "invoiced_usd": "0.00",
        },
    )
    sent(admin, b"description,amount\nSupport,7\n")

    answer = admin.get(PAGE)
    page = tight(text_of(answer))

    assert "Version 3 of it</a>(1–17 Nov 2026) counts $741.81." in page
    # $900 at the rates, and $10 less by contract for what was there; $7 billed and $52.50 due
    due = "the fleet’s report has $890.00 due by contract, all else at the rates"
    assert f"{due}; the $830.50 between them is days, hours, rates and lines" in words(answer)


def test_a_line_leads_from_what_is_still_to_book_to_what_the_button_books(admin, fleet):
    sent(admin, b"gpu_model,description,gpu_hours,amount\nH100 SXM,,1,1.95\n,Support,,7\n")

    page = " ".join(re.sub("<[^>]*>", " ", text_of(admin.get(PAGE))).split())

    assert "Still to book: $6.95 ; ticked: −$0.05 ." in page


def words(response):
    return " ".join(re.sub("<[^>]*>", " ", text_of(response)).split())


def test_a_gpu_by_its_drivers_name_is_not_in_the_ledger_until_its_suggestion_is_set(admin, fleet):
    sent(admin, b"gpu_model,gpu_hours,amount\nH100 80GB HBM3,1,3\nB200,1,9\n")

    before = admin.get(PAGE)
    assert [(each.sku, each.suggested) for each in before.context["skus"]] == [
        ("B200", ""),
        ("H100 80GB HBM3", "H100 SXM"),
    ]
    assert "looks like H100 SXM: check it, then Set" in words(before)
    assert "no GPU of this name is in the ledger" in words(before)
    assert {name for name, *_ in before.context["sums"]["reasons"]} == {"unmatched"}

    admin.post(f"{PAGE}/sku", {"sku": "H100 80GB HBM3", "gpu_model": "H100 SXM", "gpus": "1"})
    [line] = [each.line for each in admin.get(PAGE).context["lines"] if each.line.ledger_ms]
    assert (line.kind, line.billed_usd, line.ledger_usd) == ("matched", 3, 2)


def test_two_issuers_that_bill_the_same_hours_are_said_as_such(admin, fleet):
    for issuer in (b"aws", b"coreweave"):
        sent(admin, b"gpu_model,gpu_hours,amount,issuer\nH100 SXM,1,2," + issuer + b"\n")

    page = words(admin.get(PAGE))

    assert "aws $2.00 coreweave $2.00 several issuers bill the same hours" in page
    assert "missing days" not in page


def test_what_was_booked_is_said_in_its_line_and_outlives_the_invoice(admin, fleet):
    sent(admin, b"gpu_model,gpu_hours,amount\nH100 SXM,1,1.95\n")
    found = admin.get(PAGE).context
    form = {"line": found["ticked"], "seen": found["reconciled"].fingerprint, "reason": "x"}
    booked = admin.post(f"{PAGE}/book", form, follow=True)
    assert "booked −$0.05" in words(booked)
    assert not booked.context["can_book"]

    admin.post(f"{PAGE}/remove", {"id": Invoice.objects.get().pk})
    page = admin.get(PAGE)
    assert "No invoice for 2026-11 is left." in words(page)
    assert "No invoice for 2026-11 yet" in words(page)
    assert 'id="difference"' not in text_of(page)
    assert [each.line.kind for each in page.context["lines"]] == ["booked"]
