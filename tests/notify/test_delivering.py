import threading
from collections import Counter
from datetime import timedelta

import pytest
from django.db import connection

from fleetwatch.notify import delivering, selectors, services
from fleetwatch.notify.delivering import Outcome
from fleetwatch.notify.models import Channel, Delivery
from fleetwatch.notify.transports.base import TransportError
from tests.notify.factories import NOON, deliver, email_channel, queue, slack_channel
from tests.notify.fakes import Stopwatch

MINUTE = timedelta(minutes=1)


@pytest.mark.django_db
def test_a_message_goes_out_once_however_often_it_is_queued(slack):
    channel = slack_channel(slack.url)

    queued = [queue(channel, key="incident/7/opened") for _ in range(3)]
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
    queue(slack_channel(slack.url), key="k")

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
    assert delivering.wait_s(attempts, retry_after_s=None, jitter=jitter) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("given", "waited"), [(300, 300), (0, 1), (30_000, 30_000), (10**7 - 1, 86_400)]
)
def test_retry_after_is_obeyed_as_long_as_anything_waits(given, waited):
    assert delivering.wait_s(1, retry_after_s=given, jitter=1.0) == waited


@pytest.mark.django_db
def test_slacks_retry_after_is_kept_to_the_second(slack):
    slack.script.answers.append((429, {"Retry-After": "17"}, "rate_limited"))
    queue(slack_channel(slack.url), key="k")

    did = [deliver(NOON + timedelta(seconds=seconds)) for seconds in (0, 16, 17)]

    assert [each["sent"] for each in did] == [0, 0, 1]


@pytest.mark.django_db
def test_after_a_day_of_failures_it_is_given_up_and_says_so(slack):
    slack.script.answers += [(500, {}, "rollup_error")] * 40
    queue(slack_channel(slack.url), key="k")

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
    queue(slack_channel(slack.url), key="k")

    did = deliver()

    (status,) = selectors.channels()
    assert (did["failed"], did["disabled"]) == (1, 1)
    assert not status.channel.is_enabled
    assert (
        status.channel.disabled_reason
        == "Slack says 404 no_service: the address is gone or not allowed; enter another"
    )
    assert status.last.state == "failed"


@pytest.mark.django_db
def test_a_refused_message_fails_alone(slack):
    channel = slack_channel(slack.url)
    slack.script.answers.append((400, {}, "invalid_payload"))
    queue(channel, key="bad")
    queue(channel, key="good")

    did = deliver()

    assert (did["failed"], did["sent"], did["disabled"]) == (1, 1, 0)


@pytest.mark.django_db
def test_a_refused_recipient_switches_the_mail_channel_off(smtp):
    smtp.script.answers["ana@example.com"] = "550 5.1.1 no such user"
    queue(email_channel(smtp.port), key="k")

    deliver()

    assert "550 5.1.1 no such user" in Channel.objects.get().disabled_reason


@pytest.mark.django_db
def test_resolved_never_overtakes_opened(slack):
    channel = slack_channel(slack.url)
    slack.script.answers.append((500, {}, "down"))
    queue(channel, key="1", thread="incident/7", title="opened")
    queue(channel, key="2", thread="incident/7", title="resolved")

    deliver()
    deliver(NOON + MINUTE)

    titles = [sent["blocks"][0]["text"]["text"] for sent in slack.script.requests]
    assert titles == ["🟠 opened", "🟠 opened", "🟠 resolved"]


@pytest.mark.django_db
def test_a_broken_channel_does_not_hold_up_another(slack, smtp):
    slack.script.answers += [(500, {}, "down")]
    queue(slack_channel(slack.url), email_channel(smtp.port), key="k")

    did = deliver()

    assert (did["sent"], did["retry"]) == (1, 1)
    assert len(smtp.script.mails) == 1


@pytest.mark.django_db
def test_a_transport_that_breaks_holds_up_no_other_and_is_given_up(slack, smtp, monkeypatch):
    channel = slack_channel(slack.url)

    def breaks(*_: object, **__: object) -> str:
        raise UnicodeEncodeError("ascii", "ä", 0, 1, "ordinal not in range")

    monkeypatch.setattr("fleetwatch.notify.transports.slack.payload", breaks)
    queue(channel, email_channel(smtp.port), key="k")

    first, tested, last = (
        deliver(),
        services.test_send(channel, NOON),
        deliver(NOON + delivering.GIVE_UP_AFTER),
    )

    assert (first["sent"], first["retry"], last["failed"]) == (1, 1, 1)
    assert not tested.ok
    assert "UnicodeEncodeError" in tested.text


@pytest.mark.django_db
def test_what_waits_for_a_switched_off_channel_goes_out_when_it_is_back(slack):
    channel = slack_channel(slack.url)
    services.set_enabled(channel, False)
    queue(channel, key="k")

    off = deliver()
    services.set_enabled(channel, True)
    on = deliver()

    assert (off["sent"], on["sent"]) == (0, 1)


@pytest.mark.django_db
def test_what_waited_a_day_for_a_switched_off_channel_is_given_up(slack):
    channel = slack_channel(slack.url)
    services.set_enabled(channel, False)
    queue(channel, key="k")

    just_before, at = (
        deliver(NOON + timedelta(hours=24) - MINUTE),
        deliver(NOON + timedelta(hours=24)),
    )

    assert (just_before["expired"], at["expired"]) == (0, 1)
    assert Delivery.objects.get().last_answer == "the channel was switched off for 24 hours"


@pytest.mark.django_db
def test_a_worker_that_died_while_sending_gives_its_claim_back(slack):
    queue(slack_channel(slack.url), key="k")
    assert delivering._claim(NOON, Counter()) is not None
    assert delivering.is_sending(NOON)

    held, free = deliver(NOON + delivering.CLAIM - MINUTE), deliver(NOON + delivering.CLAIM)

    assert (held["sent"], free["sent"]) == (0, 1)
    assert not delivering.is_sending(NOON)


@pytest.mark.django_db
def test_a_worker_that_lost_its_claim_does_not_overwrite_the_outcome(slack):
    queue(slack_channel(slack.url), key="k")
    slow = delivering._claim(NOON, Counter())
    deliver(NOON + delivering.CLAIM)

    delivering._note(slow, Outcome(Delivery.State.FAILED, "too late", NOON))

    assert Delivery.objects.get().state == "sent"


@pytest.mark.django_db
@pytest.mark.parametrize("is_removed", [True, False])
def test_a_channel_that_was_mended_or_removed_while_sending_is_left_alone(slack, is_removed):
    queue(slack_channel("http://127.0.0.1:9/old"), key="k")
    sending = delivering._claim(NOON, Counter())
    channel = Channel.objects.get()
    if is_removed:
        channel.delete()
    else:
        services.update_channel(channel, "ops", {"webhook_url": slack.url}, gets_digest=False)

    delivering.heed(sending.channel, TransportError("Slack says 404", permanent=True), NOON)
    delivering._note(sending, Outcome(Delivery.State.FAILED, "Slack says 404", NOON))

    assert not Channel.objects.filter(is_enabled=False).exists()


@pytest.mark.django_db
def test_claims_stop_when_the_time_of_one_call_is_used_up(slack):
    channel = slack_channel(slack.url)
    for number in range(5):
        queue(channel, key=str(number))

    did = deliver(clock=Stopwatch(29))

    assert did["sent"] == 2


@pytest.mark.django_db
def test_no_more_than_the_limit_goes_out(slack):
    channel = slack_channel(slack.url)
    for number in range(3):
        queue(channel, key=str(number))

    assert deliver(limit=2)["sent"] == 2


@pytest.mark.django_db(transaction=True)
def test_two_workers_at_once_send_each_message_once(slack):
    channels = [slack_channel(slack.url, name=f"ops {number}") for number in range(6)]
    for key in range(3):
        queue(*channels, key=str(key))
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


@pytest.mark.django_db(transaction=True)
def test_three_workers_at_once_keep_a_thread_in_order(smtp):
    channel = email_channel(smtp.port)
    for number in range(12):
        queue(channel, key=str(number), thread="incident/7", title=str(number))

    def work() -> None:
        while Delivery.objects.filter(state__in=delivering.WAITING).exists():
            deliver(limit=1)
        connection.close()

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)

    assert [mail["Subject"] for mail in smtp.script.mails] == [str(each) for each in range(12)]


@pytest.mark.django_db
def test_deliveries_done_with_for_ninety_days_are_forgotten(slack):
    channel = slack_channel(slack.url)
    queue(channel, key="sent")
    deliver()
    services.set_enabled(channel, False)
    queue(channel, key="waiting")

    at, after = (
        delivering.prune_deliveries(NOON + timedelta(days=90)),
        delivering.prune_deliveries(NOON + timedelta(days=91)),
    )

    assert (at, after) == ({"deleted": 0}, {"deleted": 1})
    assert Delivery.objects.get().key == "waiting"
