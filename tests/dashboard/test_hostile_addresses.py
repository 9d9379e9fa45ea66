from zoneinfo import ZoneInfo

import pytest

from fleetwatch.accounts.services import set_organisation
from tests.dashboard import factories

ADDRESSES = [
    "/jobs?user=%00",
    "/nodes/%00",
    "/gpus/%00",
    "/jobs/%00",
    "/charts/spend?gpu=%00",
    "/?team=a%00b",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_with_the_character_0_is_a_bad_request(admin, address):
    assert admin.get(address).status_code == 400


def test_a_rate_from_the_first_day_of_the_calendar_is_refused_east_of_greenwich(admin):
    set_organisation(name="Fleet", time_zone=ZoneInfo("Asia/Kolkata"))
    node = factories.node()

    answer = admin.post(
        "/settings/rate", {"subject": f"node:{node.pk}", "usd": "2.50", "since": "0001-01-01"}
    )

    assert answer.status_code == 422


@pytest.mark.parametrize(
    "form",
    [
        {"subject": "model:H100 SXM", "usd": "1", "source": "a\x00"},
        {"subject": "model:\x00", "usd": "1"},
    ],
)
def test_a_form_with_the_character_0_is_a_bad_request(admin, form):
    assert admin.post("/settings/rate", form).status_code == 400


@pytest.mark.parametrize("number", ["9" * 19, "9" * 30, "1" * 5000, "000000001" + "9" * 20])
def test_a_number_of_any_length_is_no_row_or_refused(admin, number):
    assert admin.post("/settings/commitment-withdraw", {"id": number}).status_code == 422
    assert admin.post("/settings/enrollment", {"uses": "1", "days": number}).status_code == 422
