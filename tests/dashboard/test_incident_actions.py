"""What people decide about an incident, and what is answered to them."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from fleetwatch.alerts.models import (
    Incident,
    Silence,
)
from fleetwatch.dashboard.views.incidents import next_workday
from tests.dashboard import factories
from tests.dashboard.factories import NOW
from tests.dashboard.shown_incidents import admin_user, incident, text

HOSTILE = "<script>alert(1)</script>"

pytestmark = pytest.mark.django_db


def test_it_is_acknowledged_snoozed_and_resolved(admin):
    one = incident()
    at = f"/incidents/{one.pk}"

    admin.post(f"{at}/ack")
    one.refresh_from_db()
    assert (one.state, one.acknowledged_by) == ("acknowledged", admin_user())

    admin.post(f"{at}/snooze", {"length": "24"})
    one.refresh_from_db()
    assert one.snoozed_until == NOW + timedelta(days=1)

    admin.post(f"{at}/resolve")
    one.refresh_from_db()
    assert (one.state, one.ended_ms) == ("resolved", None)
    assert "Resolved by ann" in text(admin, at)


def test_a_snooze_of_no_length_is_four_hours(admin):
    one = incident()

    admin.post(f"/incidents/{one.pk}/snooze")

    one.refresh_from_db()
    assert one.snoozed_until == NOW + timedelta(hours=4)


def test_the_owners_reason_keeps_it_quiet_for_a_while(admin):
    one = incident()

    admin.post(f"/incidents/{one.pk}/not_waste", {"reason": "a demo at ten", "days": "1"})

    silence = Silence.objects.get()
    assert (silence.kind, silence.reason) == ("justification", "a demo at ten")
    assert silence.ends_at == NOW + timedelta(days=1)


def test_without_a_reason_nothing_is_done_and_that_is_said(admin):
    one = incident()

    answer = admin.post(f"/incidents/{one.pk}/not_waste", {"reason": " "})

    assert answer.status_code == 422
    assert "A reason is needed" in answer.content.decode()
    assert not Silence.objects.exists()


def test_it_is_taken_over_and_given_back(admin):
    one = incident()

    admin.post(f"/incidents/{one.pk}/assign", {"assignee": "ann"})
    one.refresh_from_db()
    assert one.assignee == admin_user()

    admin.post(f"/incidents/{one.pk}/assign", {"assignee": ""})
    one.refresh_from_db()
    assert one.assignee is None


def test_several_are_acted_on_at_once_and_back_it_goes(admin):
    pks = [incident(f"slurm/della/{number}").pk for number in range(3)]

    sent = {"action": "ack", "id": pks[:2], "back": "/alerts?sort=dearest"}
    answer = admin.post("/alerts/act", sent)

    assert answer["Location"] == "/alerts?sort=dearest"
    assert Incident.objects.filter(state="acknowledged").count() == 2


def test_of_several_what_is_over_already_is_named_and_the_rest_done(admin):
    over = incident("slurm/della/1", resolved_at=NOW)
    one = incident("slurm/della/2")

    answer = admin.post("/alerts/act", {"action": "ack", "id": [over.pk, one.pk]}, follow=True)

    one.refresh_from_db()
    assert one.state == "acknowledged"
    assert "it is over already" in answer.content.decode()


@pytest.mark.parametrize("number", ["9" * 5000, "9" * 25, "-1", "x", ""])
def test_what_is_no_number_of_an_incident_is_not_ticked(admin, number):
    answer = admin.post("/alerts/act", {"action": "ack", "id": [number]}, follow=True)

    assert "Nothing was ticked." in answer.content.decode()


def test_it_leads_back_nowhere_else(admin):
    sent = {"action": "ack", "id": [incident().pk], "back": "//evil.example/"}

    assert admin.post("/alerts/act", sent)["Location"] == "/alerts"


def test_an_engineer_acts_on_the_own_and_sees_no_button_elsewhere(viewer):
    vera = factories.User.objects.get(username="vera")
    own, others = incident("slurm/della/1", person=vera), incident("slurm/della/2")

    assert ">Acknowledge</button>" in text(viewer, f"/incidents/{own.pk}")
    assert ">Acknowledge</button>" not in text(viewer, f"/incidents/{others.pk}")
    assert viewer.post(f"/incidents/{own.pk}/ack").status_code == 302
    assert viewer.post(f"/incidents/{others.pk}/ack").status_code == 403


def test_what_is_no_action_is_404(admin):
    assert admin.post(f"/incidents/{incident().pk}/dance").status_code == 404
    assert admin.post("/alerts/act", {"action": "dance"}).status_code == 404


@pytest.mark.parametrize(
    ("now", "until"),
    [
        ("2026-11-19T08:00+00:00", "2026-11-20T09:00+01:00"),  # a Thursday
        ("2026-11-20T23:30+00:00", "2026-11-23T09:00+01:00"),  # Saturday there already
        ("2026-11-22T12:00+00:00", "2026-11-23T09:00+01:00"),  # a Sunday
        ("2026-03-27T12:00+00:00", "2026-03-30T09:00+02:00"),  # summer time begins meanwhile
    ],
)
def test_the_next_working_day_begins_at_nine(now, until):
    zone = ZoneInfo("Europe/Berlin")

    assert next_workday(datetime.fromisoformat(now), zone) == datetime.fromisoformat(until)
