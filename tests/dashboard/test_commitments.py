"""Commitments on the settings page: added, ended and withdrawn by admins."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from fleetwatch.costs.models import Commitment
from tests.dashboard import factories
from tests.markup import tight

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
