"""A channel that reaches nobody says of what it takes that it is kept, and never that it was sent."""

import pytest

from fleetwatch.notify import delivering
from fleetwatch.notify.models import Channel
from tests.dashboard.factories import NOW
from tests.markup import tight
from tests.notify.factories import queue, slack_channel

pytestmark = pytest.mark.django_db


def test_what_a_delivery_log_takes_is_kept(admin):
    admin.post("/settings/channel", {"kind": "log", "name": "first try"})
    queue(Channel.objects.get(), now=NOW)
    delivering.deliver_due(NOW, 10)

    page = tight(admin.get("/settings/channels").content.decode())

    assert '<td data-label="State">kept</td>' in page
    assert "kept, just now" in page
    assert '<span class="dot warn"></span>on</span>' in page
    assert "reaches nobody" in page


def test_what_waits_for_another_channel_is_pending(admin):
    queue(slack_channel("https://hooks.slack.com/services/T0/B0/secret"), now=NOW)

    page = tight(admin.get("/settings/channels").content.decode())

    assert '<td data-label="State">pending</td>' in page
