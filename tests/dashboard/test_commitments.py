"""Commitments on the settings page: added, ended and withdrawn by admins."""

import re
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from fleetwatch.costs.models import Commitment, Rate
from fleetwatch.ledger.models import Entry
from tests.dashboard import factories
from tests.markup import in_text, tight

pytestmark = pytest.mark.django_db
SENT = {
    "name": "2026-17",
    "gpu_model": "H100 SXM",
    "gpus": "64",
    "usd": "$2.10",
    "since": "2026-11-01",
    "until": "2027-11-01",
}
ACTIONS = ["commitment", "commitment-end", "commitment-withdraw"]


def add(admin, **fields):
    factories.gpu(factories.node())
    return admin.post("/settings/commitment", SENT | fields, follow=True)


@pytest.mark.parametrize("action", ACTIONS)
def test_a_stranger_is_sent_to_the_log_in(client, action):
    assert client.post(f"/settings/{action}")["Location"].startswith("/accounts/login/")


@pytest.mark.parametrize("action", ACTIONS)
def test_a_viewer_is_refused(viewer, action):
    assert viewer.post(f"/settings/{action}", SENT).status_code == 403


def test_a_commitment_is_added_shown_ended_and_withdrawn(admin):
    shown = add(admin)

    made = Commitment.objects.get()
    assert (made.gpus, made.price_per_gpu_hour, made.amount_per_month) == (
        64,
        Decimal("2.10"),
        None,
    )
    assert (made.valid_from, made.valid_to) == (
        datetime(2026, 11, 1, tzinfo=UTC),
        datetime(2027, 11, 1, tzinfo=UTC),
    )
    assert "Committed: 64 H100 SXM." in shown.content.decode()
    assert ">2026-17<" in tight(shown.content.decode())
    admin.post("/settings/commitment-end", {"id": made.pk, "until": "2026-12-01"})
    assert Commitment.objects.get().valid_to == datetime(2026, 12, 1, tzinfo=UTC)
    admin.post("/settings/commitment-withdraw", {"id": made.pk})
    assert not Commitment.objects.exists()


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({"gpus": "many"}, "gpus"),
        ({"usd": ""}, "usd"),
        ({"usd": "x"}, "usd"),
        ({"amount": "5"}, "usd"),
        ({"usd": "", "amount": "-5"}, "amount"),
        ({"gpu_model": "moon"}, "gpu_model"),
        ({"name": ""}, "name"),
        ({"since": "soon"}, "since"),
        ({"until": "2026-11-01"}, "until"),
        ({"until": "later"}, "until"),
        ({"region": "a\x07"}, "region"),
    ],
)
def test_what_cannot_be_is_said_at_its_field(admin, sent, field):
    response = add(admin, **sent)

    assert response.status_code == 422
    assert list(response.context["errors"]) == [field]
    assert not Commitment.objects.exists()


def four_gpus(admin, *, gpus="3"):
    """The list price is $4; so many of the four are committed to at $2.40."""
    node = factories.node()
    for index in range(4):
        factories.gpu(node, index=index)
    factories.rate("4", is_example=True)
    sent = SENT | {"gpus": gpus, "usd": "2.40", "since": "2026-11-01"}
    admin.post("/settings/commitment", sent, follow=True)


def test_where_gpus_are_left_on_demand_the_blended_rate_fills_the_form(admin):
    four_gpus(admin)

    page = tight(admin.get("/pricing").content.decode())

    # 3 by contract, 1 on demand: 11.20 / 4
    assert "blended (3 × 2.40 + 1 × 4.00) / 4 =<b>$2.80</b>" in page
    assert 'name="usd" value="2.800000"' in page
    assert "Use the blended rate" in page
    looked = admin.post(
        "/settings/rate",
        {"subject": "model:H100 SXM", "usd": "2.800000", "currency": "USD", "do": "look"},
    )
    assert 'value="2.800000"' in tight(looked.content.decode()).split('id="set-rate"')[1]


def test_where_all_gpus_are_committed_to_the_contract_is_offered_as_the_rate(admin):
    four_gpus(admin, gpus="4")

    page = tight(admin.get("/pricing").content.decode())

    assert "blended" not in page
    assert 'name="usd" value="2.400000"' in page
    assert "applies to all H100 SXM" in page


def test_where_the_blend_is_the_rate_already_it_is_said_and_not_offered_again(admin):
    four_gpus(admin)
    Rate.objects.update(valid_to=datetime(2026, 11, 1, tzinfo=UTC))
    factories.rate("2.80", valid_from=datetime(2026, 11, 1, tzinfo=UTC))

    page = tight(admin.get("/pricing").content.decode())

    assert "blended: (3 × 2.40 + 1 × 4.00) / 4" in page
    assert "Use the blended rate" not in page


def test_a_rate_that_does_not_say_it_is_on_demand_is_blended_with_nothing(admin):
    four_gpus(admin)
    Rate.objects.update(is_example=False)

    assert "blended" not in admin.get("/pricing").content.decode()


@pytest.mark.parametrize(
    ("committed", "says"),
    [
        # one of four at $1.50 an hour: $36 a day, $1,080 in 30 days
        (
            "4",
            "3 of 4 GPUs present, in the last day: $36.00 a day ( $1,080 in 30 days) due by contract for the 1 not delivered",
        ),
        ("3", ""),
    ],
)
def test_gpus_that_are_paid_for_and_missing_are_said_with_their_dollars(admin, committed, says):
    on = factories.node()
    gpus = [factories.gpu(on, index=index) for index in range(3)]
    Entry.objects.bulk_create(
        factories.entry(gpu, hours_ago=ago) for gpu in gpus for ago in range(1, 49)
    )
    terms = SENT | {"gpus": committed, "usd": "1.50"}
    page = tight(admin.post("/settings/commitment", terms, follow=True).content.decode())

    said = " ".join(re.sub(r"<[^>]*>", " ", page).split())
    assert ("GPUs present" in said) == bool(says)
    assert says in said.replace(" ,", ",")


@pytest.mark.parametrize(
    ("billed", "says"),
    [
        (b"gpu_model,gpu_hours,amount\nH100 SXM,1,2\n", "which has no GPU-hours for $54.00 of it"),
        (b"gpu_model,gpu_hours,amount\nH100 SXM,900,1800\n", "which bills the $54.00 of it"),
        (b"", ""),
    ],
)
def test_pricing_says_whether_the_invoice_bills_what_was_not_delivered(admin, billed, says):
    """Of two committed GPUs one was there in the 36 hours of the month that are compared."""
    gpu = factories.gpu(factories.node())
    Entry.objects.bulk_create(factories.entry(gpu, hours_ago=ago) for ago in range(1, 49))
    admin.post("/settings/commitment", SENT | {"gpus": "2", "usd": "1.50"})
    if billed:
        file = SimpleUploadedFile("november.csv", billed)
        admin.post("/reports/2026-11/invoice/import", {"file": file})

    page = in_text(admin.get("/pricing").content.decode())

    assert "not delivered. Look whether" in page
    of_invoice = page.split("the invoice of November 2026")[1]
    assert of_invoice.startswith(f" , {says}" if says else " .")
