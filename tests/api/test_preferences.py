"""Preferences in the API: how whoever asks hears of things, and nobody else."""

import pytest

from fleetwatch.accounts.models import AuditEntry
from fleetwatch.alerts.models import Preference
from tests.api.test_silences import writing

pytestmark = pytest.mark.django_db
USUAL = {
    "way": "any",
    "time_zone": "",
    "quiet_from": None,
    "quiet_until": None,
    "daily_cap": 10,
    "gets_digest": True,
}
NIGHT = {"way": "email", "time_zone": "Europe/Berlin", "quiet_from": "22:00:00",
         "quiet_until": "06:30:00", "daily_cap": 0, "gets_digest": False}  # fmt: skip


def put(client, **changes):
    return client.put("/api/v1/preferences", USUAL | changes, content_type="application/json")


def read(client) -> dict:
    return client.get("/api/v1/preferences").json()


def test_who_set_nothing_has_the_defaults_and_none_are_stored():
    assert read(writing("engineer")) == USUAL
    assert not Preference.objects.exists()


def test_everybody_sets_the_own_ones_and_nobody_elses():
    engineer, lead = writing("engineer"), writing("lead")

    answer = put(engineer, **NIGHT)

    assert answer.json() == NIGHT == read(engineer)
    assert read(lead) == USUAL
    assert Preference.objects.get().user.username == "some-engineer"
    assert AuditEntry.objects.get(action="preference.set").name == "some-engineer"


def test_a_token_that_reads_sets_nothing():
    assert put(writing("admin", "read"), way="none").status_code == 403
    assert not Preference.objects.exists()


def test_a_stranger_neither_reads_nor_sets_any(client):
    assert client.get("/api/v1/preferences").status_code == 401
    assert put(client).status_code in (401, 403)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"way": "pigeon"}, "way"),
        ({"time_zone": "Mars/Olympus"}, "time_zone"),
        ({"quiet_from": "22:00"}, "quiet_until"),
        ({"quiet_from": "22:00", "quiet_until": "22:00"}, "quiet_until"),
        ({"quiet_from": "22:00Z", "quiet_until": "06:00Z"}, "quiet_from"),
        ({"daily_cap": -1}, "daily_cap"),
        ({"daily_cap": 101}, "daily_cap"),
    ],
)
def test_what_can_not_be_is_refused_and_said_where(changes, field):
    answer = put(writing("engineer"), **changes)

    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert not Preference.objects.exists()
