import json
from typing import Any

import pytest
from slack_sdk.models.blocks import Block

from fleetwatch.notify.message import Button, Message
from fleetwatch.notify.transports.base import ConfigError, MessageRefusedError, TransportError
from fleetwatch.notify.transports.slack import SLACK
from fleetwatch.notify.transports.slack_blocks import fit, url_buttons
from fleetwatch.notify.transports.slack_blocks import payload as payload_of
from tests.notify.factories import envelope, message
from tests.notify.fakes import is_within_limits


def send(url: str, text=None) -> str:
    sent = envelope(message=text or message())
    return SLACK.send({"webhook_url": url}, sent, allow_private=True).answer


def payload(shown: Message) -> dict[str, Any]:
    return payload_of(shown, url_buttons(shown))


def test_slack_gets_header_fields_table_and_button(slack):
    said = send(slack.url)

    (sent,) = slack.script.requests
    assert said == "200 ok"
    assert sent["text"] == "🟠 idle · node-014 GPU 3, 4: 2 GPUs idle since 09:10 (3 h 20 m)"
    assert sent["blocks"] == [
        {
            "type": "header",
            "text": {"type": "plain_text", "text": "🟠 idle · node-014 GPU 3, 4", "emoji": False},
        },
        {
            "type": "section",
            "text": {
                "type": "plain_text",
                "text": "2 GPUs idle since 09:10 (3 h 20 m)",
                "emoji": False,
            },
        },
        {
            "type": "section",
            "fields": [
                {"type": "plain_text", "text": "Owner\nana (nlp)", "emoji": False},
                {"type": "plain_text", "text": "So far\n$21.60", "emoji": False},
            ],
        },
        {
            "type": "section",
            "text": {
                "type": "mrkdwn",
                "text": "```\nGPU  util\n3    0 %\n4    1 %\n```",
                "verbatim": True,
            },
        },
        {
            "type": "section",
            "text": {"type": "plain_text", "text": "Fix: scancel 48213", "emoji": False},
        },
        {
            "type": "actions",
            "elements": [
                {
                    "type": "button",
                    "text": {"type": "plain_text", "text": "Open in FleetWatch"},
                    "action_id": "open",
                    "url": "http://fleet.example/jobs/1",
                }
            ],
        },
    ]


def test_a_webhooks_buttons_lead_to_pages_and_those_without_one_are_left_out():
    acts = (
        Button("Acknowledge", "ack", "http://fleet.example/incidents/7#ack", "primary"),
        Button("Snooze", "snooze"),
        Button("Fixed", "fixed", "http://fleet.example/" + "x" * 3000),
        Button("Acknowledge again", "ack", "http://fleet.example/incidents/8#ack"),
    )

    elements = payload(message(buttons=acts))["blocks"][-1]["elements"]

    assert [(each["action_id"], each["url"], each.get("style")) for each in elements] == [
        ("ack", "http://fleet.example/incidents/7#ack", "primary"),
        ("open", "http://fleet.example/jobs/1", None),
    ]


def test_a_sparkline_stands_under_its_label_with_gaps():
    spark = payload(message(spark=(0.0, None, 1.0), spark_label="GPU ```active```"))["blocks"][3]

    assert spark["text"]["text"] == "```\nGPU '''active'''\n▁ █\n```"


def test_of_a_long_series_the_newest_values_are_drawn():
    spark = payload(message(spark=(1.0,) * 5 + (0.0,) * 60))["blocks"][3]

    assert spark["text"]["text"] == f"```\n{'▁' * 60}\n```"


def test_a_series_of_nothing_is_not_drawn():
    assert payload(message(spark=(None, None))) == payload(message())


def test_what_is_critical_has_a_sign_of_its_own():
    assert payload(message(severity="critical"))["text"].startswith("🔴 ")


def test_slacks_own_library_finds_nothing_to_object_to():
    whole = message(
        buttons=(Button("Ack", "ack", "http://fleet.example/7", "primary"),), spark=(0.5, None)
    )
    for block in Block.parse_all(payload(whole)["blocks"]):
        block.validate_json()


def test_a_hostile_job_name_mentions_nobody_and_leaves_its_code_block():
    name = "<!channel> & ``` *x*\n<http://evil|click>"

    sent = payload(
        message(title=name, summary=name, fields=((name, name),), rows=((name,),), text=name)
    )

    everything = json.dumps(sent["blocks"])
    assert "<!" not in everything
    assert "<http" not in everything
    assert sent["blocks"][3]["text"]["text"].count("```") == 2
    assert sent["text"].startswith("🟠 &lt;!channel&gt; &amp; ``` *x* &lt;http://evil|click&gt;")


@pytest.mark.parametrize(
    "name",
    [
        "*bold*",
        "_italic_",
        "~gone~",
        "`code`",
        ":tada:",
        "<!here>",
        "<@U024BE7LH>",
        "@here",
        "> quoted",
        "[a](http://evil)",
    ],
)
def test_a_names_markup_stands_nowhere_that_slack_reads_markup(name):
    sent = payload(
        message(
            title=name, summary=name, fields=((name, name),), rows=(("job",), (name,)), text=name
        )
    )

    texts = [
        text
        for block in sent["blocks"]
        for text in [block.get("text"), *block.get("fields", [])]
        if text
    ]
    marked_up = [text["text"] for text in texts if text["type"] != "plain_text"]
    assert [block["type"] for block in sent["blocks"]] == [
        "header",
        "section",
        "section",
        "section",
        "section",
        "actions",
    ]
    assert marked_up == [f"```\njob\n{fit(name, 100).replace('`', chr(39))}\n```"]
    assert not any(text["emoji"] for text in texts if text["type"] == "plain_text")
    assert sent["mrkdwn"] is False


@pytest.mark.parametrize("character", ["x", "&", "é", "🟠"])
def test_everything_too_long_is_cut_to_slacks_limits(character):
    long = character * 5000
    big = message(
        title=long,
        summary=long,
        fields=tuple((long, long) for _ in range(25)),
        rows=tuple((long, long) for _ in range(300)),
        text=long,
        url="http://fleet.example/",
        buttons=tuple(Button(long, "ack", "http://fleet.example/7") for _ in range(30)),
        spark=(0.5,) * 5000,
        spark_label=long,
    )

    sent = payload(big)

    assert is_within_limits(sent)
    assert sent["blocks"][-1]["type"] == "actions"


def test_an_escape_is_never_cut_in_two():
    assert fit("aa&&", 11) == "aa&amp;…"
    assert fit("aa&&", 12) == "aa&amp;&amp;"


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (404, "no_service"),
        (404, "channel_not_found"),
        (403, "action_prohibited"),
        (410, "channel_is_archived"),
        (302, ""),
    ],
)
def test_a_webhook_that_is_gone_is_permanent(slack, status, text):
    slack.script.answers.append((status, {}, text))

    with pytest.raises(TransportError) as caught:
        send(slack.url)

    assert caught.value.permanent
    assert f"{status} {text}".strip() in str(caught.value)
    assert "s3cr3t" not in str(caught.value)


def test_a_payload_that_slack_does_not_take_says_nothing_about_the_channel(slack):
    slack.script.answers.append((400, {}, "invalid_payload"))

    with pytest.raises(MessageRefusedError) as caught:
        send(slack.url)

    assert not caught.value.permanent


def test_slack_says_when_to_come_back(slack):
    slack.script.answers.append((429, {"Retry-After": "30"}, "rate_limited"))

    with pytest.raises(TransportError) as caught:
        send(slack.url)

    assert (caught.value.permanent, caught.value.retry_after_s) == (False, 30.0)


@pytest.mark.parametrize("value", ["-5", "soon", "1e9", "99999999999", "٣"])
def test_a_retry_after_that_is_no_number_of_seconds_is_not_obeyed(slack, value):
    slack.script.answers.append(
        (429, {"Retry-After": value} if value.isascii() else {}, "rate_limited")
    )

    with pytest.raises(TransportError) as caught:
        send(slack.url)

    assert caught.value.retry_after_s is None


def test_a_server_error_heals(slack):
    slack.script.answers.append((500, {}, "rollup_error"))

    with pytest.raises(TransportError) as caught:
        send(slack.url)

    assert not caught.value.permanent


def test_a_slow_slack_is_an_error_that_heals(slack, monkeypatch):
    slack.script.slow_s = 30
    monkeypatch.setattr("fleetwatch.notify.transports.slack.TIMEOUT_S", 0.2)

    with pytest.raises(TransportError, match=r"no answer within 0\.2 s") as caught:
        send(slack.url)

    assert not caught.value.permanent


def test_a_webhook_to_a_metadata_address_is_permanent():
    with pytest.raises(TransportError) as caught:
        send("http://169.254.169.254/latest/meta-data/")

    assert caught.value.permanent


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("", "Webhook address is needed"),
        ("hooks.slack.com/x", "The webhook address must begin with https:// or http://"),
        ("https:///services", "The webhook address names no host"),
    ],
)
def test_the_form_says_what_is_wrong_with_the_address(url, error):
    with pytest.raises(ConfigError) as caught:
        SLACK.validate({"webhook_url": url})

    assert caught.value.errors == {"webhook_url": error}


def test_a_channel_is_described_without_its_secret():
    assert (
        SLACK.describe(SLACK.validate({"webhook_url": " https://hooks.slack.com/services/T/B/s "}))
        == "hooks.slack.com"
    )
