"""Channels by which nothing arrives any more."""

import pytest

from fleetwatch.alerts.breach import stored_breach
from fleetwatch.alerts.messaging import announcing
from fleetwatch.alerts.models import Incident
from fleetwatch.notify.models import Channel, Delivery
from fleetwatch.notify.services import create_channel
from tests.alerts.factories import a_rule, at

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _rule():
    a_rule(name="Channel dead", condition="channel_dead", minutes=15)


@pytest.fixture
def channel():
    secret = {"webhook_url": "https://hooks.example/T0/secret"}
    return create_channel("slack", "ops <!here>", secret, now=at(-60))


def a_delivery(channel: Channel, minute: float, state: str, *, thread: str = "a", **fields):
    usual = {"attempts": 1, "message": {}, "key": f"{thread}/{minute}", "thread": thread}
    moments = {"created_at": at(minute), "next_attempt_at": at(minute)}
    moments |= {"sent_at": at(minute)} if state == "sent" else {}
    return Delivery.objects.create(channel=channel, state=state, **(usual | moments | fields))


def states(minute: float) -> list[str]:
    Incident.objects.filter(rule__condition="channel_dead").exists()
    announcing.run(at(minute))
    return list(Incident.objects.order_by("pk").values_list("state", flat=True))


def test_a_channel_whose_messages_do_not_arrive_for_as_long_as_the_rule_says(channel):
    a_delivery(channel, 0, "pending", last_answer="Slack says 500")

    assert states(14.9) == ["pending"]
    assert states(21) == ["firing"]
    breach = stored_breach(Incident.objects.get().facts)
    assert breach.title == "channel dead · ops <!here>"
    assert dict(breach.lines)["Last answer"] == "Slack says 500"
    assert "secret" not in str(Incident.objects.get().facts)


def test_one_stuck_message_among_others_that_arrive_is_no_dead_channel(channel):
    a_delivery(channel, 0, "pending")
    a_delivery(channel, 5, "sent", thread="b")

    assert states(30) == []


def test_a_message_that_arrives_ends_it(channel):
    stuck = a_delivery(channel, 0, "pending")
    states(20)

    Delivery.objects.filter(pk=stuck.pk).update(state="sent", sent_at=at(24))

    assert states(26) == ["resolved"]


def test_one_that_was_switched_off_for_an_error_says_why(channel):
    Channel.objects.update(is_enabled=False, disabled_reason="Slack says 410: it is gone")

    assert states(20) == ["firing"]
    breach = stored_breach(Incident.objects.get().facts)
    assert dict(breach.lines)["Last answer"] == "Slack says 410: it is gone"


def test_one_that_people_switched_off_is_not_dead(channel):
    a_delivery(channel, 0, "pending")
    Channel.objects.update(is_enabled=False)

    assert states(20) == []


def test_a_person_who_is_not_reached_is_no_dead_channel(channel):
    a_delivery(channel, 0, "failed", address="U1")

    assert states(20) == []


def test_a_channel_that_is_removed_is_no_longer_dead(channel):
    a_delivery(channel, 0, "pending")
    states(20)

    Channel.objects.all().delete()

    assert states(26) == ["resolved"]
