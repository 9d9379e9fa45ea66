import threading
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from fleetwatch.notify import selectors, services
from fleetwatch.notify.models import Channel, Delivery
from fleetwatch.notify.transports.base import ConfigError
from tests.notify.factories import NOON, email_channel, message, slack_channel
from tests.notify.fakes import Stopwatch

MINUTE = timedelta(minutes=1)


def deliver(now=NOON, limit=20, **changes) -> dict[str, int]:
    return services.deliver_due(now, limit, **({"dice": lambda: 0.5} | changes))


@pytest.mark.django_db
def test_a_message_goes_out_once_however_often_it_is_queued(slack):
    channel = slack_channel(slack.url)

    queued = [
        services.enqueue([channel], message(), key="incident/7/opened", now=NOON) for _ in range(3)
    ]
    first, second = deliver(), deliver()

    assert queued == [1, 0, 0]
    assert (first["sent"], second["sent"]) == (1, 0)
    assert len(slack.script.requests) == 1
    assert Delivery.objects.values_list("state", "attempts", "last_answer", "sent_at").get() == (
        "sent",
        1,
        "200 ok",
        NOON,
    )


@pytest.mark.django_db
def test_a_failed_try_waits_a_minute_then_two(slack):
    slack.script.answers += [(500, {}, "rollup_error"), (500, {}, "rollup_error")]
    services.enqueue([slack_channel(slack.url)], message(), key="k", now=NOON)

    did = [deliver(NOON + seconds * timedelta(seconds=1)) for seconds in (0, 59, 60, 179, 180)]

    assert [(each["sent"], each["retry"]) for each in did] == [
        (0, 1),
        (0, 0),
        (0, 1),
        (0, 0),
        (1, 0),
    ]


@pytest.mark.parametrize(
    ("attempts", "jitter", "seconds"),
    [
        (1, 0.0, 48),
        (1, 0.5, 60),
        (1, 1.0, 72),
        (2, 0.5, 120),
        (6, 0.5, 1920),
        (7, 0.5, 3600),
        (40, 0.5, 3600),
    ],
)
def test_waits_double_up_to_an_hour_with_jitter(attempts, jitter, seconds):
    assert services.wait_s(attempts, retry_after_s=None, jitter=jitter) == pytest.approx(seconds)


@pytest.mark.parametrize(("given", "waited"), [(300, 300), (0, 1), (10**7 - 1, 21_600)])
def test_retry_after_is_obeyed_within_reason(given, waited):
    assert services.wait_s(1, retry_after_s=given, jitter=1.0) == waited


@pytest.mark.django_db
def test_slacks_retry_after_is_kept_to_the_second(slack):
    slack.script.answers.append((429, {"Retry-After": "17"}, "rate_limited"))
    services.enqueue([slack_channel(slack.url)], message(), key="k", now=NOON)

    did = [deliver(NOON + timedelta(seconds=seconds)) for seconds in (0, 16, 17)]

    assert [each["sent"] for each in did] == [0, 0, 1]


@pytest.mark.django_db
def test_after_a_day_of_failures_it_is_given_up_and_says_so(slack):
    slack.script.answers += [(500, {}, "rollup_error")] * 40
    services.enqueue([slack_channel(slack.url)], message(), key="k", now=NOON)

    delivery = Delivery.objects.get()
    while delivery.state == "pending":
        deliver(delivery.next_attempt_at)
        delivery.refresh_from_db()

    assert NOON + 23 * 60 * MINUTE <= delivery.next_attempt_at <= NOON + 24 * 60 * MINUTE
    assert delivery.state == "failed"
    assert (
        delivery.last_answer
        == f"gave up after {delivery.attempts} tries: Slack says 500 rollup_error"
    )
    assert 25 <= delivery.attempts <= 32
    assert Channel.objects.get().is_enabled


@pytest.mark.django_db
def test_a_webhook_that_is_gone_switches_its_channel_off_visibly(slack):
    slack.script.answers.append((404, {}, "no_service"))
    services.enqueue([slack_channel(slack.url)], message(), key="k", now=NOON)

    did = deliver()

    (status,) = selectors.channels()
    assert (did["failed"], did["disabled"]) == (1, 1)
    assert not status.channel.is_enabled
    assert (
        status.channel.disabled_reason
        == "Slack says 404 no_service: the webhook is gone or not allowed; make a new one"
    )
    assert status.last.state == "failed"


@pytest.mark.django_db
def test_a_refused_message_fails_alone(slack):
    channel = slack_channel(slack.url)
    slack.script.answers.append((400, {}, "invalid_payload"))
    services.enqueue([channel], message(), key="bad", now=NOON)
    services.enqueue([channel], message(), key="good", now=NOON)

    did = deliver()

    assert (did["failed"], did["sent"], did["disabled"]) == (1, 1, 0)


@pytest.mark.django_db
def test_a_refused_recipient_switches_the_mail_channel_off(smtp):
    smtp.script.answers["ana@example.com"] = "550 5.1.1 no such user"
    services.enqueue([email_channel(smtp.port)], message(), key="k", now=NOON)

    deliver()

    assert "550 5.1.1 no such user" in Channel.objects.get().disabled_reason


@pytest.mark.django_db
def test_resolved_never_overtakes_opened(slack):
    channel = slack_channel(slack.url)
    slack.script.answers.append((500, {}, "down"))
    services.enqueue([channel], message(title="opened"), key="1", now=NOON)
    services.enqueue([channel], message(title="resolved"), key="2", now=NOON)

    deliver()
    deliver(NOON + MINUTE)

    titles = [sent["blocks"][0]["text"]["text"] for sent in slack.script.requests]
    assert titles == ["🟠 opened", "🟠 opened", "🟠 resolved"]


@pytest.mark.django_db
def test_a_broken_channel_does_not_hold_up_another(slack, smtp):
    slack.script.answers += [(500, {}, "down")]
    services.enqueue(
        [slack_channel(slack.url), email_channel(smtp.port)], message(), key="k", now=NOON
    )

    did = deliver()

    assert (did["sent"], did["retry"]) == (1, 1)
    assert len(smtp.script.mails) == 1


@pytest.mark.django_db
def test_a_transport_that_breaks_holds_up_no_other_and_is_given_up(slack, smtp, monkeypatch):
    channel = slack_channel(slack.url)

    def breaks(*_: object, **__: object) -> str:
        raise UnicodeEncodeError("ascii", "ä", 0, 1, "ordinal not in range")

    monkeypatch.setattr("fleetwatch.notify.transports.slack.payload", breaks)
    services.enqueue([channel, email_channel(smtp.port)], message(), key="k", now=NOON)

    first, tested, last = (
        deliver(),
        services.test_send(channel, NOON),
        deliver(NOON + services.GIVE_UP_AFTER),
    )

    assert (first["sent"], first["retry"], last["failed"]) == (1, 1, 1)
    assert not tested.ok
    assert "UnicodeEncodeError" in tested.text


@pytest.mark.django_db
def test_what_waits_for_a_switched_off_channel_goes_out_when_it_is_back(slack):
    channel = slack_channel(slack.url)
    services.set_enabled(channel, False)
    services.enqueue([channel], message(), key="k", now=NOON)

    off = deliver()
    services.set_enabled(channel, True)
    on = deliver()

    assert (off["sent"], on["sent"]) == (0, 1)


@pytest.mark.django_db
def test_what_waited_a_day_for_a_switched_off_channel_is_given_up(slack):
    channel = slack_channel(slack.url)
    services.set_enabled(channel, False)
    services.enqueue([channel], message(), key="k", now=NOON)

    just_before, at = (
        deliver(NOON + timedelta(hours=24) - MINUTE),
        deliver(NOON + timedelta(hours=24)),
    )

    assert (just_before["expired"], at["expired"]) == (0, 1)
    assert Delivery.objects.get().last_answer == "the channel was switched off for 24 hours"


@pytest.mark.django_db
def test_a_worker_that_died_while_sending_gives_its_claim_back(slack):
    services.enqueue([slack_channel(slack.url)], message(), key="k", now=NOON)
    assert services._claim(NOON) is not None
    assert services.is_sending(NOON)

    held, free = deliver(NOON + services.CLAIM - MINUTE), deliver(NOON + services.CLAIM)

    assert (held["sent"], free["sent"]) == (0, 1)
    assert not services.is_sending(NOON)


@pytest.mark.django_db
def test_a_worker_that_lost_its_claim_does_not_overwrite_the_outcome(slack):
    services.enqueue([slack_channel(slack.url)], message(), key="k", now=NOON)
    slow = services._claim(NOON)
    deliver(NOON + services.CLAIM)

    services._note(slow, Delivery.State.FAILED, "too late", NOON)

    assert Delivery.objects.get().state == "sent"


@pytest.mark.django_db
@pytest.mark.parametrize("is_removed", [True, False])
def test_a_channel_that_was_mended_or_removed_while_sending_is_left_alone(slack, is_removed):
    services.enqueue([slack_channel("http://127.0.0.1:9/old")], message(), key="k", now=NOON)
    sending = services._claim(NOON)
    channel = Channel.objects.get()
    if is_removed:
        channel.delete()
    else:
        services.update_channel(channel, "ops", {"webhook_url": slack.url}, gets_digest=False)

    services._disable(sending.channel, "Slack says 404")
    services._note(sending, Delivery.State.FAILED, "Slack says 404", NOON)

    assert not Channel.objects.filter(is_enabled=False).exists()


@pytest.mark.django_db
def test_claims_stop_when_the_time_of_one_call_is_used_up(slack):
    channel = slack_channel(slack.url)
    for number in range(5):
        services.enqueue([channel], message(), key=str(number), now=NOON)

    did = deliver(clock=Stopwatch(services.BUDGET_S / 2 - 1))

    assert did["sent"] == 2


@pytest.mark.django_db
def test_no_more_than_the_limit_goes_out(slack):
    channel = slack_channel(slack.url)
    for number in range(3):
        services.enqueue([channel], message(), key=str(number), now=NOON)

    assert deliver(limit=2)["sent"] == 2


@pytest.mark.django_db(transaction=True)
def test_two_workers_at_once_send_each_message_once(slack):
    channels = [slack_channel(slack.url, name=f"ops {number}") for number in range(6)]
    for key in range(3):
        services.enqueue(channels, message(), key=str(key), now=NOON)
    sent = []

    def work() -> None:
        sent.append(deliver()["sent"])
        connection.close()

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)

    sent.append(deliver()["sent"])  # what the others held when the last looked
    assert sum(sent) == 18
    assert len(slack.script.requests) == 18


@pytest.mark.django_db
def test_secrets_are_encrypted_in_the_row_and_absent_from_what_pages_get(slack, smtp):
    channel = email_channel(smtp.port, username="fleet", password="s3cr3t")

    stored = bytes(Channel.objects.get(pk=channel.pk).config)
    [status] = selectors.channels()
    shown = status.values

    assert b"s3cr3t" not in stored
    assert "password" not in shown
    assert shown["username"] == "fleet"
    assert services.config_of(channel)["password"] == "s3cr3t"


@pytest.mark.django_db
def test_an_edit_keeps_the_secret_that_was_left_blank_and_revives_the_channel(slack):
    channel = slack_channel(slack.url)
    services.set_enabled(channel, False)

    services.update_channel(channel, "renamed", {"webhook_url": ""}, gets_digest=True)

    kept = Channel.objects.get()
    assert services.config_of(kept)["webhook_url"] == slack.url
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
    assert services.config_of(channel) == {"webhook_url": slack.url}


@pytest.mark.django_db
def test_settings_that_no_key_opens_are_shown_and_disable_the_channel(slack, settings):
    channel = slack_channel(slack.url)
    services.enqueue([channel], message(), key="k", now=NOON)
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


@pytest.mark.django_db
def test_deliveries_done_with_for_ninety_days_are_forgotten(slack):
    channel = slack_channel(slack.url)
    services.enqueue([channel], message(), key="sent", now=NOON)
    deliver()
    services.set_enabled(channel, False)
    services.enqueue([channel], message(), key="waiting", now=NOON)

    at, after = (
        services.prune_deliveries(NOON + timedelta(days=90)),
        services.prune_deliveries(NOON + timedelta(days=91)),
    )

    assert (at, after) == ({"deleted": 0}, {"deleted": 1})
    assert Delivery.objects.get().key == "waiting"
