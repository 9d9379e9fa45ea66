from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from fleetwatch.notify import selectors, services
from fleetwatch.notify.channel_settings import config_of
from fleetwatch.notify.models import Channel, Delivery
from fleetwatch.notify.transports.base import ConfigError
from tests.notify.factories import NOON, deliver, email_channel, queue, slack_channel


@pytest.mark.django_db
def test_secrets_are_encrypted_in_the_row_and_absent_from_what_pages_get(slack, smtp):
    channel = email_channel(smtp.port, username="fleet", password="s3cr3t")

    stored = bytes(Channel.objects.get(pk=channel.pk).config)
    [status] = selectors.channels()
    shown = status.values

    assert b"s3cr3t" not in stored
    assert "password" not in shown
    assert shown["username"] == "fleet"
    assert config_of(channel)["password"] == "s3cr3t"


@pytest.mark.django_db
def test_an_edit_keeps_the_secret_that_was_left_blank_and_revives_the_channel(slack):
    channel = slack_channel(slack.url)
    services.set_enabled(channel, False)

    services.update_channel(channel, "renamed", {"webhook_url": ""}, gets_digest=True)

    kept = Channel.objects.get()
    assert config_of(kept)["webhook_url"] == slack.url
    assert (kept.name, kept.gets_digest, kept.is_enabled, kept.disabled_reason) == (
        "renamed",
        True,
        True,
        "",
    )


@pytest.mark.django_db
def test_names_are_needed_and_unique(slack):
    slack_channel(slack.url, name="ops")

    with pytest.raises(ConfigError) as twice:
        slack_channel(slack.url, name=" ops ")
    with pytest.raises(ConfigError) as empty:
        slack_channel(slack.url, name=" ")

    assert twice.value.errors == {"name": "There is already a channel called ops"}
    assert empty.value.errors == {"name": "Name is needed"}


@pytest.mark.django_db
def test_an_unknown_kind_is_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="pigeon"):
        services.create_channel("pigeon", "x", {}, now=NOON)


@pytest.mark.django_db
def test_a_test_message_goes_out_at_once_and_revives_the_channel(slack):
    channel = slack_channel(slack.url)
    services.set_enabled(channel, False)

    result = services.test_send(channel, NOON)

    assert (result.ok, result.text) == (True, "200 ok")
    assert Channel.objects.get().is_enabled
    assert Delivery.objects.count() == 0


@pytest.mark.django_db
def test_a_test_message_that_fails_says_why(slack):
    slack.script.answers.append((410, {}, "channel_is_archived"))

    result = services.test_send(slack_channel(slack.url), NOON)

    assert not result.ok
    assert "410 channel_is_archived" in result.text
    assert not Channel.objects.get().is_enabled


@pytest.mark.django_db
def test_a_new_secret_key_opens_old_settings_until_they_are_rotated(slack, settings):
    channel = slack_channel(slack.url)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "a new key", [settings.SECRET_KEY]
    out = StringIO()

    call_command("rotate_secrets", stdout=out)

    settings.SECRET_KEY_FALLBACKS = []
    channel.refresh_from_db()
    assert out.getvalue().startswith("1 channels and 0 second factors re-encrypted")
    assert config_of(channel) == {"webhook_url": slack.url}


@pytest.mark.django_db
def test_settings_that_no_key_opens_are_shown_and_disable_the_channel(slack, settings):
    channel = slack_channel(slack.url)
    queue(channel, key="k")
    settings.SECRET_KEY = "lost"

    did = deliver()

    (status,) = selectors.channels()
    assert did["disabled"] == 1
    assert status.where == "settings unreadable: enter them again"
    assert "enter them again" in status.channel.disabled_reason
    with pytest.raises(CommandError, match="1 channels .enter their settings again. and 0"):
        call_command("rotate_secrets")


@pytest.mark.django_db
def test_private_addresses_can_be_forbidden(slack, settings):
    settings.ALLOW_PRIVATE_WEBHOOKS = False

    result = services.test_send(slack_channel(slack.url), NOON)

    assert "FLEETWATCH_ALLOW_PRIVATE_WEBHOOKS is off" in result.text
