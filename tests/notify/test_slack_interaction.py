"""Requests as https://docs.slack.dev shows them: the signature's example, a click, a window."""

from datetime import UTC, datetime

import pytest
from slack_sdk.models.views import View
from slack_sdk.signature import SignatureVerifier

from fleetwatch.notify import services
from fleetwatch.notify.selectors import slack_signers
from fleetwatch.notify.slack_interaction import (
    Interaction,
    InteractionError,
    is_first,
    is_signed,
    parse,
    reason_modal,
)
from fleetwatch.notify.transports.base import TransportError
from tests.notify.factories import app_channel
from tests.notify.slack_payloads import click, submission

# https://docs.slack.dev/authentication/verifying-requests-from-slack
SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
AT = 1531420618
BODY = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow"
    b"&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner"
    b"&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands"
    b"%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
    b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)
SIGNATURE = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"


def signed(**changes) -> bool:
    facts = {
        "body": BODY,
        "timestamp": str(AT),
        "signature": SIGNATURE,
        "secret": SECRET,
        "now_s": AT,
    }
    facts |= changes
    return is_signed(facts.pop("body"), **facts)


def test_slacks_own_example_is_signed():
    assert signed()


@pytest.mark.parametrize(
    ("seconds", "is_in_time"), [(-301, False), (-300, True), (300, True), (300.5, False)]
)
def test_a_request_is_good_for_five_minutes(seconds, is_in_time):
    assert signed(now_s=AT + seconds) is is_in_time


@pytest.mark.parametrize(
    "changes",
    [
        {"body": BODY + b"&x=1"},
        {"timestamp": str(AT + 1)},
        {"secret": "another"},
        {"secret": ""},
        {"signature": SIGNATURE.upper()},
        {"signature": SIGNATURE.removeprefix("v0=")},
        {"signature": "v0=ä"},
        {"signature": ""},
        {"timestamp": ""},
        {"timestamp": "soon"},
        {"timestamp": "-1531420618"},
        {"timestamp": "١٥٣١٤٢٠٦١٨"},
        {"timestamp": "9" * 400},
    ],
)
def test_anything_else_is_not_signed(changes):
    assert not signed(**changes)


@pytest.mark.parametrize("body", [b"", b"payload=%7B%7D", "payload=ä".encode()])
def test_slacks_own_library_signs_the_same(body):
    theirs = SignatureVerifier(SECRET).generate_signature(timestamp=str(AT), body=body)

    assert signed(body=body, signature=theirs)


def test_the_same_request_comes_once():
    fresh = "v0=" + "1" * 64

    assert [is_first(fresh), is_first(fresh), is_first("v0=" + "2" * 64)] == [True, False, True]


def test_a_click_says_who_did_what_to_what():
    assert parse(click()) == Interaction(
        who="UA8RXUSPL",
        action="ack",
        value="incident/7",
        trigger_id="12321423423.333649436676.d8c1bb837935619ccad0f624c448ffb3",
        response_url="https://hooks.slack.com/actions/AABA1ABCD/1232321423432/D09sSasdasdAS9091209",
        reason=None,
    )


def test_a_link_tells_of_its_click_too():
    interaction = parse(click(act={"action_id": "open", "value": None, "url": "http://x"}))

    assert (interaction.action, interaction.value) == ("open", "")


def test_a_window_brings_its_thread_and_the_reason_on_one_line():
    interaction = parse(submission())

    assert (
        interaction.action,
        interaction.value,
        interaction.reason,
        interaction.response_url,
    ) == (
        "not_waste",
        "incident/7",
        "A nightly benchmark starts at 6",
        "",
    )


def test_a_long_reason_is_cut_and_a_hostile_one_is_text():
    interaction = parse(submission("<!channel>\u202e " + "x" * 3000))

    assert interaction.reason.startswith("<!channel> x")
    assert len(interaction.reason) == 300


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"payload=",
        b"payload=%7B%7D",
        b"payload=%5B%5D",
        b"payload=%FF",
        b"\xff\xfe",
        b"&".join(b"a=1" for _ in range(50)),
        click(type="message_action"),
        click(type="view_submission"),
        click(actions=[]),
        click(actions=[{"action_id": "ack"}, {"action_id": "fixed"}]),
        click(act={"action_id": "delete_everything"}),
        click(act={"value": "x" * 201}),
        click(user={"id": "nobody"}),
        click(user=None),
        submission(None),
        submission(" \n"),
        submission(callback_id="other"),
        submission(state={"values": {}}),
    ],
)
def test_what_our_messages_can_not_cause_is_refused(body):
    with pytest.raises(InteractionError):
        parse(body)


def test_the_window_is_one_that_slacks_own_library_takes():
    View(**reason_modal("incident/7")).validate_json()


@pytest.mark.django_db
def test_the_app_whose_secret_signed_it_is_found_among_those_that_are_on(slack_api):
    app_channel(slack_api.url, name="other", signing_secret="another")
    app_channel(slack_api.url, name="links", signing_secret="")
    ours = app_channel(slack_api.url, name="ours", signing_secret=SECRET)
    now = datetime.fromtimestamp(AT, UTC)

    signers = slack_signers(BODY, timestamp=str(AT), signature=SIGNATURE, now=now)
    forged = slack_signers(BODY + b"x", timestamp=str(AT), signature=SIGNATURE, now=now)
    services.set_enabled(ours, False)
    off = slack_signers(BODY, timestamp=str(AT), signature=SIGNATURE, now=now)

    assert (signers, forged, off) == ([ours], [], [])


@pytest.mark.django_db
def test_not_waste_opens_its_window_once_and_in_time(slack_api):
    channel = app_channel(slack_api.url)
    clicked = parse(click(act={"action_id": "not_waste"}))
    slack_api.workspace.triggers.append(clicked.trigger_id)

    services.ask_reason(channel, clicked)
    with pytest.raises(TransportError, match="expired_trigger_id"):
        services.ask_reason(channel, clicked)

    assert slack_api.workspace.views == [reason_modal("incident/7")]
