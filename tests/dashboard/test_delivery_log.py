"""A channel that reaches nobody says of what it takes that it is kept, and never that it was sent."""

import pytest

from fleetwatch.notify import delivering
from fleetwatch.notify.models import Channel
from fleetwatch.reports.models import Report
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


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"sent": 1, "is_kept": True}, "no: kept in the delivery log"),
        ({"sent": 1, "is_kept": False}, "yes"),
        ({"sent": 1}, "yes"),
        ({"sent": 0, "has_news": True}, "no: no channel or address"),
    ],
)
def test_a_digest_that_a_delivery_log_took_alone_was_sent_nowhere(admin, content, words):
    facts = {"week": "2026-W47", "has_news": True, "message": {"title": "GPU week"}}
    Report.objects.create(
        kind="weekly_digest",
        subject="",
        start=NOW,
        end=NOW,
        version=1,
        computed_at=NOW,
        content=facts | content,
    )

    page = tight(admin.get("/reports").content.decode())

    assert f'<td data-label="Sent">{words}</td>' in page


def test_channels_that_all_keep_say_that_nobody_gets_a_message(admin):
    Channel.objects.all().delete()
    Channel.objects.create(name="log", kind="log", created_at=NOW)
    kept = admin.get("/settings/channels").content.decode()
    slack_channel("https://hooks.slack.com/services/T/B/x")

    assert "Nobody gets a message." in kept
    assert "Nobody gets a message." not in admin.get("/settings/channels").content.decode()
