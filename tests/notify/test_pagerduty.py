from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from fleetwatch.notify import services
from fleetwatch.notify.models import Channel, Delivery
from fleetwatch.notify.transports.base import ConfigError, MessageRefusedError, TransportError
from fleetwatch.notify.transports.pagerduty import PAGERDUTY
from tests.notify.factories import NOON, deliver, envelope, message, queue
from tests.notify.fake_events_api import KEY, FakeEventsAPI, refusal

LABELS = (("rule", "Job idle"), ("team", "nlp"), ("node", "gpu-01"), ("job", "slurm/d/7"))
FIRING = message(status="firing", labels=LABELS, since_ms=1_795_165_800_000)


@pytest.fixture
def events_api() -> Iterator[FakeEventsAPI]:
    api = FakeEventsAPI()
    yield api
    api.server.stop()


def send(api: FakeEventsAPI, shown=FIRING, **changes) -> str:
    config = {"routing_key": KEY, "api_url": api.server.url} | changes
    sent = envelope(message=shown, thread="group/7")
    return PAGERDUTY.send(config, sent, allow_private=True).answer


def test_an_incident_triggers_with_what_it_is_about(events_api):
    said = send(events_api)

    [event] = events_api.events
    payload = event["payload"]
    assert said.startswith("202 ")
    assert (event["event_action"], event["dedup_key"]) == ("trigger", "fleet.example/group/7")
    assert (event["client"], event["client_url"]) == ("FleetWatch", "http://fleet.example/jobs/1")
    assert event["links"] == [{"href": "http://fleet.example/jobs/1", "text": "Open in FleetWatch"}]
    assert payload == {
        "summary": "idle · node-014 GPU 3, 4",
        "source": "gpu-01",
        "severity": "warning",
        "component": "slurm/d/7",
        "group": "nlp",
        "class": "Job idle",
        "timestamp": "2026-11-20T09:10:00.000+00:00",
        "custom_details": {
            "summary": "2 GPUs idle since 09:10 (3 h 20 m)",
            "text": "Fix: scancel 48213",
            "rows": ["GPU | util", "3 | 0 %", "4 | 1 %"],
            "Owner": "ana (nlp)",
            "So far": "$21.60",
        },
    }


def test_it_is_acknowledged_and_resolved_by_its_thread(events_api):
    states = []
    for status in ("firing", "acknowledged", "firing", "resolved"):
        severity = "resolved" if status == "resolved" else "critical"
        send(events_api, replace(FIRING, status=status, severity=severity))
        states.append(events_api.alerts["fleet.example/group/7"])

    assert states == ["triggered", "acknowledged", "acknowledged", "resolved"]
    assert events_api.pages == ["fleet.example/group/7"]


@pytest.mark.parametrize("severity", ["info", "warning", "critical"])
def test_a_severity_is_the_same_there(events_api, severity):
    send(events_api, replace(FIRING, severity=severity))

    assert events_api.events[0]["payload"]["severity"] == severity


def test_what_is_about_no_incident_is_a_change_that_pages_nobody(events_api):
    send(events_api, message())

    assert [each["summary"] for each in events_api.changes] == ["idle · node-014 GPU 3, 4"]
    assert (events_api.alerts, events_api.pages) == ({}, [])


def test_a_title_beyond_its_limit_and_hostile_is_cut_to_a_line(events_api):
    send(events_api, replace(FIRING, title="a\n" + "x" * 5000, labels=(("node", "\u202egpu"),)))

    [event] = events_api.events
    assert len(event["payload"]["summary"]) == 1024
    assert "\n" not in event["payload"]["summary"]


@pytest.mark.django_db
def test_what_is_over_before_it_could_be_sent_pages_nobody(events_api):
    channel = channel_to(events_api)
    queue(channel, key="1", thread="group/7", status="firing")
    queue(channel, key="2", thread="group/7", status="resolved", severity="resolved")

    deliver()

    assert events_api.pages == []
    assert sorted(Delivery.objects.values_list("state", flat=True)) == ["sent", "superseded"]


@pytest.mark.django_db
def test_a_lost_answer_pages_nobody_twice(events_api):
    events_api.server.lost_answers = 1
    queue(channel_to(events_api), thread="group/7", status="firing")

    deliver()
    deliver(NOON + timedelta(minutes=5))

    assert len(events_api.events) == 2
    assert events_api.pages == ["fleet.example/group/7"]


def channel_to(api: FakeEventsAPI) -> Channel:
    config = {"routing_key": KEY, "api_url": api.server.url}
    return services.create_channel("pagerduty", "pager", config, now=NOON)


@pytest.mark.parametrize("key", ["0" * 32, "short"])
def test_a_wrong_key_is_for_good_and_not_repeated(events_api, key):
    with pytest.raises(TransportError) as caught:
        send(events_api, routing_key=key)

    assert caught.value.permanent
    assert "does not take the integration key" in str(caught.value)
    assert "0" * 32 not in str(caught.value)


def test_an_event_that_is_refused_says_nothing_of_the_channel(events_api):
    events_api.server.answers.append(refusal("'payload.summary' is missing or blank"))

    with pytest.raises(MessageRefusedError):
        send(events_api)


@pytest.mark.parametrize(
    ("status", "headers", "wait_s"),
    [(429, {}, None), (429, {"Retry-After": "30"}, 30), (500, {}, None)],
)
def test_too_many_events_and_trouble_there_heal(events_api, status, headers, wait_s):
    events_api.server.answers.append((status, headers, ""))

    with pytest.raises(TransportError) as caught:
        send(events_api)

    assert (caught.value.permanent, caught.value.retry_after_s) == (False, wait_s)


@pytest.mark.parametrize("key", ["", "x" * 31, "x" * 33, "x" * 31 + "-"])
def test_a_key_has_32_letters_and_digits(key):
    with pytest.raises(ConfigError) as caught:
        PAGERDUTY.validate({"routing_key": key})

    assert list(caught.value.errors) == ["routing_key"]


def test_the_usual_address_needs_not_be_typed():
    config = PAGERDUTY.validate({"routing_key": KEY})

    assert config["api_url"] == "https://events.pagerduty.com"
    assert PAGERDUTY.describe(config) == "a service, by events.pagerduty.com"
