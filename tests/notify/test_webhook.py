import base64
import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from fleetwatch.notify import services
from fleetwatch.notify.models import Channel, Delivery
from fleetwatch.notify.transports.base import ConfigError, MessageRefusedError, TransportError
from fleetwatch.notify.transports.webhook import WEBHOOK
from tests.notify.factories import NOON, deliver, envelope, message, queue
from tests.notify.post_server import PostServer

DOCS = Path(__file__).resolve().parents[2] / "docs" / "notifications.md"


def secret_of(length: int) -> str:
    return base64.b64encode(b"k" * length).decode()


SECRET = secret_of(32)


@pytest.fixture
def hook() -> Iterator[PostServer]:
    server = PostServer(lambda _: (204, {}, ""))
    yield server
    server.stop()


def send(hook: PostServer, **changes) -> str:
    config = {"url": f"{hook.url}/hook", "secret": SECRET}
    return WEBHOOK.send(config, envelope(**changes), allow_private=True).answer


def test_the_body_says_what_people_are_told_and_what_programs_route_by(hook):
    shown = message(
        status="firing", labels=(("team", "nlp"), ("node", "node-014")), since_ms=1_795_165_800_000
    )

    assert send(hook, message=shown) == "204"

    [request] = hook.requests
    assert request.path == "/hook"
    assert json.loads(request.body) == {
        "version": 1,
        "id": "1",
        "thread": "incident/7",
        "status": "firing",
        "severity": "warning",
        "is_reply": False,
        "title": "idle · node-014 GPU 3, 4",
        "summary": "2 GPUs idle since 09:10 (3 h 20 m)",
        "text": "Fix: scancel 48213",
        "url": "http://fleet.example/jobs/1",
        "since_ms": 1_795_165_800_000,
        "labels": {"team": "nlp", "node": "node-014"},
        "fields": [
            {"label": "Owner", "value": "ana (nlp)"},
            {"label": "So far", "value": "$21.60"},
        ],
        "rows": [["GPU", "util"], ["3", "0 %"], ["4", "1 %"]],
    }


def test_a_report_has_no_status_and_no_beginning(hook):
    send(hook)

    body = json.loads(hook.requests[0].body)
    assert (body["status"], body["since_ms"], body["labels"]) == (None, None, {})


def test_the_reference_library_verifies_it(hook):
    send(hook)

    [request] = hook.requests
    assert Webhook(SECRET).verify(request.body, request.headers)["thread"] == "incident/7"
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(request.body.replace(b"idle", b"busy"), request.headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(base64.b64encode(b"other key " * 3).decode()).verify(request.body, request.headers)


@pytest.mark.parametrize(
    ("age_s", "is_fresh"), [(0, True), (300, True), (301, False), (-301, False)]
)
def test_the_guides_code_takes_it_within_five_minutes(hook, age_s, is_fresh):
    [code] = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.S)
    guide: dict = {}
    exec(code, guide)
    send(hook)
    [request] = hook.requests
    sent_s = int(request.headers["webhook-timestamp"])
    guide["time"] = SimpleNamespace(time=lambda: sent_s + age_s)

    assert guide["is_ours"](request.headers, request.body, SECRET) is is_fresh
    assert not guide["is_ours"](request.headers, request.body + b" ", SECRET)


@pytest.mark.django_db
def test_a_second_try_has_the_same_id_and_body(hook):
    hook.lost_answers = 1
    queue(hook_channel(hook))

    deliver()
    deliver(NOON + timedelta(minutes=5))

    first, second = hook.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body
    assert Delivery.objects.get().state == "sent"


@pytest.mark.parametrize("status", [301, 401, 403, 404, 410])
def test_an_address_that_is_gone_is_permanent_and_not_repeated(hook, status):
    hook.answers.append((status, {}, "gone"))

    with pytest.raises(TransportError) as caught:
        send(hook)

    assert caught.value.permanent
    assert str(status) in str(caught.value)
    assert "/hook" not in str(caught.value)


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_body_that_is_refused_says_nothing_of_the_channel(hook, status):
    hook.answers.append((status, {}, "no"))

    with pytest.raises(MessageRefusedError):
        send(hook)


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_server_that_is_in_trouble_is_asked_again(hook, status):
    hook.answers.append((status, {}, "trouble"))

    with pytest.raises(TransportError) as caught:
        send(hook)

    assert (caught.value.permanent, caught.value.retry_after_s) == (False, None)


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({"Retry-After": "37"}, 37.0),
        (
            {
                "Retry-After": "Fri, 20 Nov 2026 12:01:30 GMT",
                "Date": "Fri, 20 Nov 2026 12:00:00 GMT",
            },
            90.0,
        ),
        (
            {"Retry-After": "Fri, 20 Nov 2026 12:01:30", "Date": "Fri, 20 Nov 2026 12:00:00 GMT"},
            None,
        ),
        ({"Retry-After": "tomorrow"}, None),
    ],
)
@pytest.mark.django_db
def test_it_waits_exactly_as_long_as_the_answer_says(hook, headers, wait_s):
    channel = hook_channel(hook)
    hook.answers.append((429, headers, ""))
    queue(channel)

    deliver()

    channel.refresh_from_db()
    until = None if wait_s is None else NOON + timedelta(seconds=wait_s)
    assert channel.paused_until == until


def hook_channel(hook: PostServer) -> Channel:
    config = {"url": f"{hook.url}/hook", "secret": SECRET}
    return services.create_channel("webhook", "hook", config, now=NOON)


@pytest.mark.parametrize("prefix", ["", "whsec_"])
@pytest.mark.parametrize("length", [24, 64])
def test_a_secret_has_24_to_64_bytes(length, prefix):
    config = {"url": "https://a.example/", "secret": prefix + secret_of(length)}

    assert WEBHOOK.validate(config) == config


@pytest.mark.parametrize("secret", [*map(secret_of, (0, 23, 65)), "no base64!", "ü" * 40])
def test_a_secret_that_is_too_short_too_long_or_no_base64_is_refused(secret):
    with pytest.raises(ConfigError) as caught:
        WEBHOOK.validate({"url": "https://a.example/", "secret": secret})

    assert list(caught.value.errors) == ["secret"]


def test_it_is_described_by_its_host_alone():
    assert WEBHOOK.describe({"url": "https://a.example/s3cr3t"}) == "a.example"
