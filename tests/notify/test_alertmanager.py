"""Against a real Alertmanager where Debian's package can be fetched; else they say why not."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from fleetwatch.notify import delivering, services
from fleetwatch.notify.models import Channel, Delivery, RemoteMessage
from fleetwatch.notify.transports.alertmanager import ALERTMANAGER, LASTS_S, label_names
from fleetwatch.notify.transports.base import ConfigError, MessageRefusedError, Receipt
from tests.debian import UnavailableError
from tests.notify.factories import NOON, deliver, envelope, message, queue
from tests.notify.post_server import PostServer
from tests.notify.real_alertmanager import Alertmanager

HOUR_MS = 3_600_000
LABELS = (("rule", "Job idle"), ("severity", "warning"), ("user", "ana"), ("node", "gpu-01"))
FIRING = message(status="firing", labels=LABELS)
RESOLVED = replace(FIRING, status="resolved", severity="resolved", labels=(("rule", "renamed"),))


@pytest.fixture
def alertmanager(tmp_path) -> Iterator[Alertmanager]:
    try:
        server = Alertmanager(tmp_path)
    except UnavailableError as error:
        pytest.skip(f"no real Alertmanager: {error}")
    yield server
    server.stop()


@pytest.fixture
def api() -> Iterator[PostServer]:
    server = PostServer(lambda _: (200, {}, ""))
    yield server
    server.stop()


def send(url: str, shown=FIRING, **changes) -> Receipt:
    sent = envelope(message=shown, **changes)
    return ALERTMANAGER.send({"url": url}, sent, allow_private=True)


def posted(api: PostServer) -> list[dict]:
    return [alert for each in api.requests for alert in json.loads(each.body)]


def test_a_real_one_receives_groups_and_resolves_ours(alertmanager):
    since_ms = int(time.time() * 1000) - HOUR_MS
    shown = replace(FIRING, since_ms=since_ms)
    first = send(alertmanager.url, shown, thread="group/7")
    send(alertmanager.url, shown, thread="group/8")
    send(alertmanager.url, shown, thread="group/7", remote_id=first.remote_id)

    standing = {each["labels"]["thread"]: each for each in alertmanager.alerts()}
    told = alertmanager.told(1)[-1]
    count = len(alertmanager.hook.requests)
    send(alertmanager.url, RESOLVED, thread="group/7", remote_id=first.remote_id)
    then = alertmanager.told(count + 1)[-1]

    assert sorted(standing) == ["group/7", "group/8"]
    assert standing["group/7"]["labels"] == {
        "alertname": "Job idle",
        "severity": "warning",
        "user": "ana",
        "node": "gpu-01",
        "thread": "group/7",
    }
    assert standing["group/7"]["generatorURL"] == "http://fleet.example/jobs/1"
    assert standing["group/7"]["annotations"]["summary"] == "2 GPUs idle since 09:10 (3 h 20 m)"
    starts = datetime.fromisoformat(standing["group/7"]["startsAt"])
    assert starts == datetime.fromtimestamp(since_ms / 1000, UTC)
    assert told["groupLabels"] == {"alertname": "Job idle", "user": "ana"}
    assert {each["labels"]["thread"]: each["status"] for each in then["alerts"]} == {
        "group/7": "resolved",
        "group/8": "firing",
    }
    assert [each["labels"]["thread"] for each in alertmanager.alerts()] == ["group/8"]


def test_a_real_one_takes_hostile_labels_and_a_beginning_ahead_of_its_clock(alertmanager):
    labels = (("label.a b", "<script>\u202e"), ("0x", "ü" * 200), ("rule", "*"), ("empty", ""))
    ahead_ms = int(time.time() * 1000) + HOUR_MS
    shown = replace(FIRING, labels=labels, since_ms=ahead_ms)
    receipt = send(alertmanager.url, shown)
    send(alertmanager.url, replace(shown, status="resolved"), remote_id=receipt.remote_id)

    assert alertmanager.alerts() == []


@pytest.mark.django_db
def test_what_fires_is_back_four_minutes_after_a_real_one_lost_all(alertmanager):
    queue(channel_to(alertmanager.url), status="firing", labels=LABELS)
    deliver()
    alertmanager.kill()
    alertmanager.start()
    lost = alertmanager.alerts()
    early = deliver(NOON + timedelta(seconds=239))
    did = deliver(NOON + timedelta(seconds=240))

    assert (lost, early["repeated"], did["repeated"], did["sent"]) == ([], 0, 1, 1)
    assert [each["labels"]["user"] for each in alertmanager.alerts()] == ["ana"]
    assert Delivery.objects.count() == 1


def channel_to(url: str) -> Channel:
    return services.create_channel("alertmanager", "am", {"url": url}, now=NOON)


@pytest.mark.django_db
def test_it_is_repeated_until_it_is_resolved_by_the_labels_of_its_first_message(api):
    channel = channel_to(api.url)
    queue(channel, key="1", thread="group/7", status="firing", labels=LABELS)
    for minutes in range(0, 9, 4):
        deliver(NOON + timedelta(minutes=minutes))
    changed = {"severity": "resolved", "labels": (("rule", "Job idle"), ("user", "ben"))}
    at = NOON + timedelta(minutes=9)
    queue(channel, key="2", thread="group/7", status="resolved", now=at, **changed)
    for minutes in range(9, 60, 4):
        deliver(NOON + timedelta(minutes=minutes))

    labels = [each["labels"] for each in posted(api)]
    assert len(labels) == 4
    assert labels == [labels[0]] * 4
    ends = [
        datetime.fromisoformat(each["endsAt"]).timestamp() - time.time() for each in posted(api)
    ]
    assert all(abs(end - LASTS_S) < 60 for end in ends[:3])
    assert -60 < ends[3] <= 0


@pytest.mark.django_db
def test_nothing_is_repeated_while_something_newer_waits(api):
    channel = channel_to(api.url)
    queue(channel, key="1", thread="group/7", status="firing")
    deliver()
    api.answers.append((503, {}, ""))
    at = NOON + timedelta(minutes=4)
    queue(channel, key="2", thread="group/7", status="resolved", now=at)
    did = deliver(at)
    deliver(at + timedelta(minutes=2))

    assert did["repeated"] == 0
    assert len(posted(api)) == 3
    assert RemoteMessage.objects.get().repeat_at is None


@pytest.mark.django_db
def test_a_repetition_that_fails_is_tried_for_a_day_and_then_again(api):
    channel = channel_to(api.url)
    queue(channel, status="firing")
    deliver()
    # longer than what is never sent is tried
    later = NOON + 2 * delivering.GIVE_UP_AFTER
    api.answers.append((503, {}, ""))
    first = deliver(later)
    second = deliver(later + timedelta(minutes=10))
    third = deliver(later + timedelta(minutes=11))

    assert (first["failed"], second["repeated"] + third["repeated"]) == (1, 1)
    assert Delivery.objects.get().state == "sent"


@pytest.mark.django_db
def test_what_stands_there_is_kept_longer_than_ninety_days(api):
    queue(channel_to(api.url), status="firing")
    deliver()

    delivering.prune_deliveries(NOON + 2 * delivering.KEEP)

    assert Delivery.objects.count() == 1


def test_what_is_about_no_incident_ends_by_itself(api):
    receipt = send(api.url, message())

    [alert] = posted(api)
    assert alert["labels"]["alertname"] == "FleetWatch"
    assert datetime.fromisoformat(alert["endsAt"]).timestamp() == pytest.approx(
        time.time() + 300, abs=60
    )
    assert receipt.repeat_after_s is None


def test_labels_have_names_that_prometheus_takes():
    pairs = [("label.a-b", "1"), ("label.a_b", "2"), ("1st", "3"), ("rule", "R"), ("none", " ")]

    assert label_names(pairs) == {"label_a_b": "1", "_1st": "3", "alertname": "R"}


def test_an_alert_that_is_refused_says_why(alertmanager):
    with pytest.raises(MessageRefusedError, match="invalid label set"):
        send(alertmanager.url, remote_id='{"labels":{"a.b":"c"},"starts_s":1}')


def test_the_form_wants_an_address():
    with pytest.raises(ConfigError) as caught:
        ALERTMANAGER.validate({"url": "alertmanager:9093"})

    assert caught.value.errors == {"url": "The address must begin with https:// or http://"}
