from zoneinfo import ZoneInfo

import pytest

from fleetwatch.accounts.services import set_organisation
from tests.dashboard import factories

ADDRESSES = ["/jobs?user=%00", "/nodes/%00", "/gpus/%00", "/jobs/%00", "/charts/spend?gpu=%00", "/?team=a%00b"]


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_with_the_character_0_is_a_bad_request(admin, address):
    assert admin.get(address).status_code == 400


def test_a_rate_from_the_first_day_of_the_calendar_is_refused_east_of_greenwich(admin):
    set_organisation(name="Fleet", time_zone=ZoneInfo("Asia/Kolkata"))
    node = factories.node()

    answer = admin.post("/settings/rate", {"subject": f"node:{node.pk}", "usd": "2.50", "since": "0001-01-01"})

    assert answer.status_code == 422
