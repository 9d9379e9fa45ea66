"""The messages that channels were sent, on their page."""

import pytest

from fleetwatch.notify.models import Delivery
from tests.dashboard import factories
from tests.notify.factories import queue, slack_channel

pytestmark = pytest.mark.django_db


def test_a_message_that_was_sent_is_read_by_operators_without_its_readers_own_links(admin):
    channel = slack_channel("https://hooks.slack.com/services/T0/B0/x")
    queue(
        channel,
        text="Fix: <b>scancel</b> 48213",
        url="http://fleet.example/secret",
        unsubscribe_url="http://fleet.example/never-again",
    )

    page = admin.get("/settings/channels").content.decode()
    admin.force_login(factories.user(role="engineer", username="vera"))
    others = admin.get("/settings/channels").content.decode()

    assert "Fix: &lt;b&gt;scancel&lt;/b&gt; 48213" in page
    assert "GPU | util" in page
    assert "fleet.example" not in page
    assert "scancel" not in others


def test_a_message_in_a_form_that_is_no_longer_read_does_not_break_the_page(admin):
    queue(slack_channel("https://hooks.slack.com/services/T0/B0/x"))
    Delivery.objects.update(message={"title": 7})

    assert admin.get("/settings/channels").status_code == 200
