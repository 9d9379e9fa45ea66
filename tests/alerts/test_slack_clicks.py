"""Clicks in Slack, signed as its own library signs: who did what to which incidents."""

import time

import psycopg
import pytest
from django.db import connection
from django.test import Client
from slack_sdk.signature import SignatureVerifier
from structlog.testing import capture_logs

from fleetwatch.accounts.models import AuditEntry, Identity
from fleetwatch.alerts.models import Incident, IncidentGroup, Silence
from fleetwatch.notify.models import Channel
from fleetwatch.notify.services import Recipient, enqueue
from tests.alerts.factories import a_rule, an_incident, at
from tests.dashboard.factories import user
from tests.notify.factories import app_channel, deliver, message
from tests.notify.slack_payloads import click, submission

pytestmark = pytest.mark.django_db

SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
MEMBER = "UA8RXUSPL"
NOW = at(60)


@pytest.fixture(autouse=True)
def _at_now(time_machine):
    time_machine.move_to(NOW, tick=False)


@pytest.fixture
def channel(slack_api) -> Channel:
    """The app's, by which the group was told."""
    return app_channel(slack_api.url, signing_secret=SECRET)


@pytest.fixture
def group(channel) -> IncidentGroup:
    rule = a_rule()
    group = IncidentGroup.objects.create(rule=rule, key="ana/gpu-07", opened_at=at(30))
    an_incident(rule, "slurm/della/1", opened_at=at(30), group=group)
    tell(channel, group)
    return group


def tell(channel: Channel, group: IncidentGroup) -> None:
    thread = f"group/{group.pk}"
    enqueue([Recipient(channel)], message(), key=f"{thread}/opened", now=NOW, thread=thread)
    deliver(NOW)


def ann(**fields):
    """Somebody whose Slack member id is known."""
    person = user(**({"username": "ann", "role": "engineer"} | fields))
    Identity.objects.create(
        user=person, system="slack", name=MEMBER, source="admin", created_at=NOW, confirmed_at=NOW
    )
    return person


def post(body: bytes, *, secret: str = SECRET, sent_s: float | None = None, **headers):
    timestamp = str(int(NOW.timestamp() if sent_s is None else sent_s))
    signature = SignatureVerifier(secret).generate_signature(timestamp=timestamp, body=body)
    signed = {"X-Slack-Request-Timestamp": timestamp, "X-Slack-Signature": signature}
    kind = "application/x-www-form-urlencoded"
    return Client().post("/slack/interactivity", body, kind, headers=signed | headers)


def clicked(slack_api, group, action="ack", **changes):
    act = {"action_id": action, "value": f"group/{group.pk}"}
    return post(click(act=act, response_url=slack_api.response_url, **changes))


def said(slack_api) -> list[str]:
    """What was said to who clicked."""
    return [each["text"] for each in slack_api.workspace.whispers]


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"secret": "another"}, 401),  # another app's, of another workspace
        ({"sent_s": NOW.timestamp() - 301}, 401),
        ({"sent_s": NOW.timestamp() + 301}, 401),
        ({"X-Slack-Signature": ""}, 401),
        ({"X-Slack-Signature": "v0=0"}, 401),
        ({"X-Slack-Request-Timestamp": ""}, 401),
        ({"sent_s": NOW.timestamp() - 300}, 200),
    ],
)
def test_only_what_slack_signed_lately_is_heard(slack_api, group, changes, status):
    answer = post(click(act={"action_id": "open", "value": None}), **changes)

    assert answer.status_code == status


def test_a_request_comes_once(slack_api, group):
    statuses = [clicked(slack_api, group).status_code for _ in range(2)]

    assert statuses == [200, 409]
    assert len(said(slack_api)) == 1


def test_what_is_no_click_of_ours_is_refused(channel):
    statuses = [post(body).status_code for body in (b"payload=%7B%7D", b"x" * 65_537)]

    assert statuses == [400, 413]


def test_a_channel_that_is_off_hears_no_clicks(slack_api, group, channel):
    Channel.objects.update(is_enabled=False)

    assert clicked(slack_api, group).status_code == 401


def test_a_stranger_is_told_how_to_claim_the_name(slack_api, group):
    answer = clicked(slack_api, group)

    assert (answer.status_code, answer.content) == (200, b"")
    assert said(slack_api) == [
        "FleetWatch knows nobody as Slack member UA8RXUSPL. Claim that name on"
        " http://127.0.0.1:8000/me: once an admin has confirmed it, your clicks count."
    ]
    assert slack_api.workspace.whispers[0]["response_type"] == "ephemeral"
    assert slack_api.workspace.whispers[0]["replace_original"] is False


def test_a_claim_that_nobody_confirmed_and_an_account_that_ended_are_strangers(slack_api, group):
    person = ann()
    person.identities.update(confirmed_at=None)
    clicked(slack_api, group)
    person.identities.update(confirmed_at=NOW)
    person.is_active = False
    person.save(update_fields=["is_active"])
    clicked(slack_api, group, trigger_id="1.2.3")

    assert all("knows nobody" in text for text in said(slack_api))
    assert len(said(slack_api)) == 2


def test_a_strangers_window_says_it_itself(slack_api, group):
    answer = post(submission(private_metadata=f"group/{group.pk}"))

    assert answer.json()["response_action"] == "errors"
    assert "knows nobody" in answer.json()["errors"]["reason"]


def test_another_apps_message_is_none_of_this_ones(slack_api, group):
    """Whoever holds another app's secret clicks nothing that this one told."""
    ann()
    app_channel(slack_api.url, name="other", signing_secret="another")
    act = {"action_id": "ack", "value": f"group/{group.pk}"}

    answer = post(click(act=act, response_url=slack_api.response_url), secret="another")

    assert answer.status_code == 200
    assert said(slack_api) == ["FleetWatch does not know what this message is about any more."]


@pytest.mark.parametrize("value", ["group/0", "group/", "group/x", "report/1", "", "group/²"])
def test_of_what_was_not_told_nothing_is_known(slack_api, group, value):
    ann()
    act = {"action_id": "ack", "value": value}
    answer = post(click(act=act, response_url=slack_api.response_url))

    assert answer.status_code == 200
    assert said(slack_api) == ["FleetWatch does not know what this message is about any more."]


def incident(group) -> Incident:
    return group.incidents.get()


@pytest.mark.parametrize(
    ("action", "state", "history"),
    [
        ("ack", "acknowledged", "acknowledged by {by}"),
        ("snooze", "firing", "snoozed until 20 Nov 2026, 14:00 UTC by {by}"),
        ("fixed", "resolved", "fixed by {by}"),
    ],
)
def test_the_owner_does_it_as_himself(slack_api, group, action, state, history):
    person = ann()
    group.incidents.update(person=person)

    answer = clicked(slack_api, group, action)

    assert (answer.status_code, answer.content, said(slack_api)) == (200, b"", [])
    assert incident(group).state == state
    event = incident(group).events.get(kind=action)
    assert (event.text, event.by) == (history, person)
    entry = AuditEntry.objects.get(action=f"incident.{action}")
    assert (entry.user_id, entry.via, entry.name) == (person.pk, "slack", "ann")


def test_the_windows_reason_says_that_it_is_no_waste(slack_api, group):
    group.incidents.update(person=ann())

    answer = post(submission("nightly benchmark", private_metadata=f"group/{group.pk}"))

    assert (answer.status_code, answer.content) == (200, b"")
    silence = Silence.objects.get()
    assert (silence.kind, silence.reason) == ("justification", "nightly benchmark")
    assert incident(group).verdict == "rejected"


def test_a_click_is_about_all_that_goes_on_of_the_group(slack_api, group):
    person = ann(role="operator")
    an_incident(group.rule, "slurm/della/2", opened_at=at(31), group=group)
    over = an_incident(
        group.rule, "slurm/della/3", opened_at=at(31), resolved_at=at(32), group=group
    )

    clicked(slack_api, group)

    states = dict(group.incidents.values_list("subject", "state"))
    assert states.pop(over.subject) == "resolved"
    assert set(states.values()) == {"acknowledged"}
    assert {each.acknowledged_by for each in group.incidents.exclude(pk=over.pk)} == {person}


def test_whose_it_is_not_is_told_so_and_nothing_happens(slack_api, group):
    """One of the group is his, the other is not: all or nothing."""
    an_incident(group.rule, "slurm/della/2", opened_at=at(31), group=group, person=ann())

    clicked(slack_api, group)
    window = post(submission("mine, surely", private_metadata=f"group/{group.pk}"))

    [text] = said(slack_api)
    assert "operators" in text
    assert window.json() == {"response_action": "errors", "errors": {"reason": text}}
    assert set(group.incidents.values_list("state", flat=True)) == {"firing"}
    assert not Silence.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_row_that_somebody_holds_is_not_waited_for_long(slack_api, group):
    group.incidents.update(person=ann())
    begin = time.perf_counter()

    with another_connection() as other:
        other.execute("SELECT 1 FROM alerts_incident FOR UPDATE")
        answer = clicked(slack_api, group)
        lasted_s = time.perf_counter() - begin
        other.rollback()

    assert answer.status_code == 200
    assert lasted_s < 3
    assert said(slack_api) == [
        "FleetWatch is just looking at this incident: click again in a moment."
    ]
    clicked(slack_api, group, trigger_id="1.2.3")
    assert incident(group).state == "acknowledged"


def another_connection() -> psycopg.Connection:
    given = connection.get_connection_params() | {"context": None}
    return psycopg.connect(**given | {"cursor_factory": psycopg.Cursor})


def test_what_is_over_is_over(slack_api, group):
    ann()
    group.incidents.update(state="resolved", resolved_at=NOW, ended_ms=1)

    clicked(slack_api, group)

    assert said(slack_api) == ["This is over already."]


def test_not_waste_asks_for_the_reason(slack_api, group):
    ann()
    slack_api.workspace.triggers.append("9.9.a")

    clicked(slack_api, group, "not_waste", trigger_id="9.9.a")

    [view] = slack_api.workspace.views
    assert view["private_metadata"] == f"group/{group.pk}"
    assert said(slack_api) == []


def test_a_window_that_came_too_late_is_said(slack_api, group):
    ann()

    clicked(slack_api, group, "not_waste")

    assert said(slack_api) == [
        "The window did not open in time: click again, or open the incident's page."
    ]


def test_slack_has_its_answer_within_three_seconds_however_slow_it_is_itself(slack_api, group):
    ann()
    slack_api.workspace.slow_s = 20.0

    begin = time.perf_counter()
    answer = clicked(slack_api, group, "not_waste")

    assert answer.status_code == 200
    assert time.perf_counter() - begin < 3


def test_no_secret_and_no_address_of_a_click_is_logged(slack_api, group):
    slack_api.workspace.answers = [(500, {}, {"ok": False, "error": "no"})] * 2
    with capture_logs() as logs:
        clicked(slack_api, group)
        post(b"payload=%7B%7D", secret="another")

    text = repr(logs)
    assert [each["event"] for each in logs] == ["slack click not answered", "slack request refused"]
    assert not any(
        secret in text for secret in (SECRET, "D09sSas", "9s8d9as89d8as9d8as989", "v0=", "xoxb")
    )
