"""Channels under settings: added, tested, edited with their secrets kept, switched off, removed."""

import pytest

from fleetwatch.notify.channel_settings import config_of
from fleetwatch.notify.models import Channel

pytestmark = pytest.mark.django_db


def test_a_channels_secret_is_never_shown_again(admin):
    address = "https://hooks.slack.com/services/T000/B000/verysecret"

    admin.post("/settings/channel", {"kind": "slack", "name": "ops", "webhook_url": address})

    assert Channel.objects.get().name == "ops"
    assert "verysecret" not in admin.get("/settings/channels").content.decode()


def test_a_channel_is_added_and_tested_at_once(admin):
    form = {"kind": "log", "name": "first try", "then": "test"}

    page = admin.post("/settings/channel", form, follow=True).content.decode()

    assert "first try was added, and its test was sent: kept here, sent nowhere" in page


def test_a_wrong_channel_keeps_what_was_typed_and_says_why(admin):
    response = admin.post(
        "/settings/channel",
        {
            "kind": "email",
            "name": "mail",
            "host": "smtp.example.com",
            "recipients": "",
            "sender": "a@b.c",
        },
    )

    assert response.status_code == 422
    assert "smtp.example.com" in response.content.decode()
    assert not Channel.objects.exists()


def test_a_channel_is_edited_and_a_secret_left_blank_stays(admin):
    admin.post(
        "/settings/channel",
        {
            "kind": "slack",
            "name": "ops",
            "webhook_url": "https://hooks.slack.com/services/T/B/kept",
        },
    )
    channel = Channel.objects.get()
    assert 'value="ops"' in admin.get(f"/settings/channels?edit={channel.pk}").content.decode()

    admin.post(
        "/settings/channel-edit",
        {"id": channel.pk, "name": "on-call", "webhook_url": "", "gets_digest": "on"},
    )

    channel.refresh_from_db()
    assert (channel.name, channel.gets_digest) == ("on-call", True)
    assert config_of(channel)["webhook_url"] == "https://hooks.slack.com/services/T/B/kept"


def test_a_wrong_edit_keeps_what_was_typed_and_changes_nothing(admin):
    admin.post(
        "/settings/channel",
        {"kind": "slack", "name": "ops", "webhook_url": "https://hooks.slack.com/services/T/B/x"},
    )
    channel = Channel.objects.get()

    response = admin.post(
        "/settings/channel-edit",
        {"id": channel.pk, "name": "on-call", "webhook_url": "not an address"},
    )

    assert response.status_code == 422
    assert 'value="on-call"' in response.content.decode()
    assert "not an address" not in response.content.decode()
    assert Channel.objects.get().name == "ops"


def test_a_channel_can_be_switched_off_and_removed(admin):
    admin.post(
        "/settings/channel",
        {"kind": "slack", "name": "ops", "webhook_url": "https://hooks.slack.com/services/T/B/x"},
    )
    channel = Channel.objects.get()

    admin.post("/settings/channel-toggle", {"id": channel.pk})
    channel.refresh_from_db()
    assert channel.is_enabled is False

    admin.post("/settings/channel-delete", {"id": channel.pk})
    assert not Channel.objects.exists()
