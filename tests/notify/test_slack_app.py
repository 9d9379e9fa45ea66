import json
from collections import Counter
from datetime import timedelta

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.models.blocks import Block

from fleetwatch.notify import delivering, selectors
from fleetwatch.notify.message import Button
from fleetwatch.notify.models import Channel, Delivery, RemoteMessage
from fleetwatch.notify.services import Recipient
from fleetwatch.notify.services import test_send as send_test
from fleetwatch.notify.transports.base import (
    AddressRefusedError,
    ConfigError,
    MessageRefusedError,
    Receipt,
    TransportError,
)
from fleetwatch.notify.transports.slack_app import SLACK_APP
from fleetwatch.notify.transports.slack_blocks import MAX_TOTAL
from tests.notify.factories import NOON, app_channel, app_config, deliver, envelope, message, queue
from tests.notify.fake_slack_api import TOKEN, Conversation, no, slow_down

ANA = "U2147483697"
TITLE = "🟠 idle · node-014 GPU 3, 4"
ACTS = (
    Button("Acknowledge", "ack", "http://fleet.example/incidents/7#ack", "primary"),
    Button("Not waste", "not_waste", style="danger"),
    Button("The job", "open", "http://fleet.example/jobs/1"),
)


def send(url: str, sent=None, **changes) -> Receipt:
    return SLACK_APP.send(app_config(url, **changes), sent or envelope(), allow_private=True)


def buttons(sent: dict) -> list[tuple[str, str | None, str | None]]:
    elements = sent["blocks"][-1]["elements"]
    return [(each["action_id"], each.get("value"), each.get("url")) for each in elements]


def test_slacks_own_client_and_the_fake_understand_each_other(slack_api):
    client = WebClient(token=TOKEN, base_url=f"{slack_api.url}/")

    posted = client.chat_postMessage(channel="#gpu-alerts", text="hello")
    client.chat_update(channel=posted["channel"], ts=posted["ts"], text="bye")
    with pytest.raises(SlackApiError) as refused:
        client.chat_update(channel="C024BE91L", ts="1.000000", text="bye")

    [kept] = slack_api.workspace.messages.values()
    assert (kept["text"], kept["edited"]["user"]) == ("bye", "U0LAN0Z89")
    assert refused.value.response["error"] == "message_not_found"


def test_a_message_is_posted_with_the_token_and_named_by_where_it_stands(slack_api):
    receipt = send(slack_api.url)

    [(method, sent)] = slack_api.workspace.calls
    assert receipt == Receipt("posted", "C024BE91L/1503435956.000001")
    assert (method, sent["channel"], sent["unfurl_links"]) == (
        "chat.postMessage",
        "#gpu-alerts",
        False,
    )
    assert slack_api.workspace.standing() == [("C024BE91L", TITLE)]


def test_a_later_message_edits_it_and_replaces_its_blocks(slack_api):
    first = send(slack_api.url)

    changed = envelope(
        message=message(title="over", severity="resolved"), remote_id=first.remote_id
    )
    second = send(slack_api.url, changed)

    [kept] = slack_api.workspace.messages.values()
    assert second == Receipt("edited", first.remote_id)
    assert slack_api.workspace.standing() == [("C024BE91L", "🟢 over")]
    assert "edited" in kept


def test_a_reply_goes_below_it_and_what_is_edited_stays_the_first(slack_api):
    first = send(slack_api.url)

    reminder = envelope(message=message(title="still", is_reply=True), remote_id=first.remote_id)
    second = send(slack_api.url, reminder)

    assert second == Receipt("replied", first.remote_id)
    assert slack_api.workspace.replies("1503435956.000001") == ["🟠 still"]


@pytest.mark.parametrize("is_reply", [False, True])
def test_what_somebody_deleted_is_posted_anew(slack_api, is_reply):
    first = send(slack_api.url)
    slack_api.workspace.messages.clear()

    again = envelope(message=message(is_reply=is_reply), remote_id=first.remote_id)
    second = send(slack_api.url, again)

    assert second.answer == "posted"
    assert slack_api.workspace.standing() == [("C024BE91L", TITLE)]


@pytest.mark.parametrize("code", ["cant_update_message", "edit_window_closed", "is_archived"])
def test_what_may_not_be_edited_is_posted_anew(slack_api, code):
    slack_api.workspace.answers.append(no(code))

    receipt = send(slack_api.url, envelope(remote_id="C0OLD/1.000001"))

    assert receipt == Receipt("posted", "C024BE91L/1503435956.000001")


def test_a_person_gets_a_direct_message_which_can_be_edited(slack_api):
    first = send(slack_api.url, envelope(address=ANA))
    second = send(slack_api.url, envelope(address=ANA, remote_id=first.remote_id))

    assert first.remote_id == "D0G9QPY56/1503435956.000001"
    assert second.answer == "edited"
    assert slack_api.workspace.standing() == [("D0G9QPY56", TITLE)]


def test_clicks_bring_the_thread_and_only_what_opens_a_page_is_a_link(slack_api):
    send(slack_api.url, envelope(message=message(buttons=ACTS)))

    [(_, sent)] = slack_api.workspace.calls
    assert buttons(sent) == [
        ("ack", "incident/7", None),
        ("not_waste", "incident/7", None),
        ("open", None, "http://fleet.example/jobs/1"),
    ]
    for block in Block.parse_all(sent["blocks"]):
        block.validate_json()


def test_without_a_signing_secret_buttons_are_links(slack_api):
    send(slack_api.url, envelope(message=message(buttons=ACTS)), signing_secret="")

    [(_, sent)] = slack_api.workspace.calls
    assert buttons(sent) == [
        ("ack", None, "http://fleet.example/incidents/7#ack"),
        ("open", None, "http://fleet.example/jobs/1"),
    ]


@pytest.mark.parametrize("character", ["x", "&", "日", "🟠"])
def test_the_longest_message_fits_and_keeps_its_buttons(slack_api, character):
    long = character * 5000
    big = message(
        title=long,
        summary=long,
        fields=((long, long),) * 25,
        rows=((long, long),) * 300,
        text=long,
        buttons=ACTS,
    )

    receipt = send(slack_api.url, envelope(message=big))

    [(_, sent)] = slack_api.workspace.calls
    assert receipt.answer == "posted"
    assert len(json.dumps(sent["blocks"], ensure_ascii=False)) <= MAX_TOTAL + 100  # brackets
    assert len(buttons(sent)) == 3


@pytest.mark.parametrize(
    "code",
    [
        "channel_not_found",
        "is_archived",
        "not_in_channel",
        "invalid_auth",
        "token_revoked",
        "account_inactive",
        "missing_scope",
    ],
)
def test_what_stops_the_channel_is_permanent_and_says_what_to_do(slack_api, code):
    slack_api.workspace.answers.append(no(code))

    with pytest.raises(TransportError, match=f"Slack says {code}: ") as caught:
        send(slack_api.url)

    assert caught.value.permanent
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize(
    "code", ["user_not_found", "cannot_dm_bot", "channel_not_found", "messages_tab_disabled"]
)
def test_a_person_who_can_not_be_reached_is_no_fault_of_the_channel(slack_api, code):
    slack_api.workspace.answers.append(no(code))

    with pytest.raises(AddressRefusedError, match=code) as caught:
        send(slack_api.url, envelope(address=ANA))

    assert not caught.value.permanent


def test_a_wrong_token_stops_the_channel_whomever_it_was_for(slack_api):
    with pytest.raises(TransportError, match="invalid_auth") as caught:
        send(slack_api.url, envelope(address=ANA), bot_token="xoxb-other")

    assert caught.value.permanent


def test_an_address_that_is_no_member_id_is_never_sent(slack_api):
    for address in ("ana@example.com", "C024BE91L", "u2147483697", "@ana"):
        with pytest.raises(AddressRefusedError, match="is no Slack member id"):
            send(slack_api.url, envelope(address=address))

    assert slack_api.workspace.calls == []


@pytest.mark.parametrize("code", ["msg_too_long", "msg_blocks_too_long", "invalid_blocks"])
def test_a_message_that_slack_does_not_take_fails_alone(slack_api, code):
    slack_api.workspace.answers.append(no(code))

    with pytest.raises(MessageRefusedError, match=code) as caught:
        send(slack_api.url)

    assert not caught.value.permanent


@pytest.mark.parametrize(
    ("answer", "waits_s"),
    [
        (slow_down(30), 30.0),
        (no("ratelimited", 200, **{"Retry-After": "3"}), 3.0),
        (no("internal_error"), None),
        (no("fatal_error", 500), None),
        (no("service_unavailable", 503), None),
    ],
)
def test_what_heals_is_tried_again_when_slack_says(slack_api, answer, waits_s):
    slack_api.workspace.answers.append(answer)

    with pytest.raises(TransportError) as caught:
        send(slack_api.url)

    assert (caught.value.permanent, caught.value.retry_after_s) == (False, waits_s)
    assert not isinstance(caught.value, MessageRefusedError)


@pytest.mark.django_db
def test_an_incident_is_one_message_that_changes_with_its_reminders_below(slack_api):
    channel = app_channel(slack_api.url)
    steps = [("opened", {}), ("reminder", {"is_reply": True}), ("resolved", {})]
    for number, (title, changes) in enumerate(steps):
        at = NOON + timedelta(minutes=number)
        queue(channel, key=title, thread="incident/7", now=at, title=title, **changes)
        deliver(at)

    assert slack_api.workspace.standing() == [("C024BE91L", "🟠 resolved")]
    assert slack_api.workspace.replies("1503435956.000001") == ["🟠 reminder"]
    assert RemoteMessage.objects.get().remote_id == "C024BE91L/1503435956.000001"


@pytest.mark.django_db
def test_a_worker_that_dies_after_a_post_doubles_it_once(slack_api):
    channel = app_channel(slack_api.url)
    queue(channel, key="1", thread="incident/7", title="opened")
    dying = delivering._claim(NOON, Counter())
    delivering.send(channel, delivering._envelope(dying))
    for key in ("2", "3"):
        queue(channel, key=key, thread="incident/7", title="resolved")
        deliver(NOON + delivering.CLAIM)

    titles = [title for _, title in slack_api.workspace.standing()]
    assert titles == ["🟠 opened", "🟠 resolved"]


@pytest.mark.django_db
def test_a_worker_that_dies_after_an_edit_doubles_nothing(slack_api):
    channel = app_channel(slack_api.url)
    queue(channel, key="1", thread="incident/7", title="opened")
    deliver()
    queue(channel, key="2", thread="incident/7", title="resolved")
    dying = delivering._claim(NOON, Counter())
    delivering.send(channel, delivering._envelope(dying))

    deliver(NOON + delivering.CLAIM)

    assert slack_api.workspace.standing() == [("C024BE91L", "🟠 resolved")]


@pytest.mark.django_db
def test_an_answer_that_is_lost_is_as_a_death_after_the_post(slack_api):
    slack_api.workspace.lost_answers = 1
    queue(app_channel(slack_api.url), title="opened")

    deliver()
    deliver(NOON + timedelta(minutes=1))

    titles = [title for _, title in slack_api.workspace.standing()]
    assert titles == ["🟠 opened", "🟠 opened"]


@pytest.mark.django_db
def test_too_many_pauses_the_channel_for_everybody_in_it(slack_api):
    channel = app_channel(slack_api.url)
    slack_api.workspace.answers.append(slow_down(17))
    queue(channel, Recipient(channel, ANA))

    did = [deliver(NOON + timedelta(seconds=seconds)) for seconds in (0, 16, 17)]

    assert [each["sent"] for each in did] == [0, 0, 2]
    assert len(slack_api.workspace.calls) == 3


@pytest.mark.django_db
def test_a_stranger_fails_alone_and_a_revoked_token_stops_all(slack_api):
    channel = app_channel(slack_api.url)
    queue(channel, Recipient(channel, ANA), Recipient(channel, "U0STRANGER"))
    stranger = deliver()
    slack_api.workspace.is_revoked = True
    queue(channel, Recipient(channel, ANA), key="2")

    revoked = deliver()

    assert (stranger["sent"], stranger["failed"], stranger["disabled"]) == (2, 1, 0)
    assert (revoked["failed"], revoked["disabled"]) == (1, 1)
    assert Channel.objects.get().disabled_reason == (
        "Slack says token_revoked: the token was revoked"
    )
    assert Delivery.objects.filter(state="pending").count() == 1


@pytest.mark.django_db
def test_a_test_message_is_posted_and_the_channel_shown_without_secrets(slack_api):
    channel = app_channel(slack_api.url)

    result = send_test(channel, NOON)

    [status] = selectors.channels()
    assert (result.ok, result.text) == (True, "posted")
    assert status.where == "#gpu-alerts and people by their member ids"
    assert status.values == {"channel": "#gpu-alerts", "api_url": slack_api.url}


def test_a_channel_in_which_the_app_is_not_a_member_is_said(slack_api):
    slack_api.workspace.conversations.append(Conversation("C1", "other", is_member=False))

    with pytest.raises(TransportError, match="not_in_channel: invite the app to the channel"):
        send(slack_api.url, channel="#other")


@pytest.mark.parametrize(
    ("changes", "errors"),
    [
        ({"bot_token": ""}, {"bot_token": "Bot token is needed"}),
        ({"bot_token": "xoxp-1"}, {"bot_token": "A bot token begins with xoxb-"}),
        ({"bot_token": "xoxb-1\r\nX: y"}, {"bot_token": "A bot token begins with xoxb-"}),
        (
            {"channel": "gpu-alerts"},
            {"channel": "Channel must be an id like C0123456789, or #name"},
        ),
        (
            {"signing_secret": "ä"},
            {"signing_secret": "A signing secret is of letters and digits"},
        ),
        (
            {"api_url": "ftp://slack.com"},
            {"api_url": "The address of the API must begin with https:// or http://"},
        ),
    ],
)
def test_the_form_says_what_is_wrong(changes, errors):
    with pytest.raises(ConfigError) as caught:
        SLACK_APP.validate(app_config("https://slack.com/api", **changes))

    assert caught.value.errors == errors


def test_the_real_api_is_called_unless_another_is_given():
    typed = app_config("", signing_secret="")

    assert SLACK_APP.validate(typed)["api_url"] == "https://slack.com/api"
