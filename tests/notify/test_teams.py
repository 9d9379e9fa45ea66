"""Against a fake of Power Automate's "When a Teams webhook request is received", from its
documentation: https://learn.microsoft.com/connectors/teams/#when-a-teams-webhook-request-is-received
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fleetwatch.notify.message import Button
from fleetwatch.notify.transports.base import ConfigError, MessageRefusedError, TransportError
from fleetwatch.notify.transports.microsoft_teams import TEAMS, payload
from tests.notify.factories import envelope, message
from tests.notify.post_server import Answer, PostServer, Request

LIMIT = 28 * 1024
PATH = "/workflows/7f/triggers/manual/paths/invoke?sig=s3cr3t"


def judged(request: Request) -> Answer:
    """202 without a body for a message with one card within the limit."""
    if len(request.body) > LIMIT:
        return 413, {}, "Request Entity too large"
    sent = json.loads(request.body)
    [attachment] = sent["attachments"]
    card = attachment["content"]
    is_card = (
        sent["type"] == "message"
        and attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
        and card["type"] == "AdaptiveCard"
        and tuple(map(int, card["version"].split("."))) <= (1, 5)  # what Teams shows
    )
    return (202, {}, "") if is_card else (400, {}, "bad payload")


@pytest.fixture
def workflow() -> Iterator[PostServer]:
    server = PostServer(judged)
    yield server
    server.stop()


def send(workflow: PostServer, shown=None) -> str:
    config = {"webhook_url": workflow.url + PATH}
    return TEAMS.send(config, envelope(message=shown or message()), allow_private=True).answer


def card(**changes) -> dict[str, Any]:
    return payload(message(**changes))["attachments"][0]["content"]


def runs(block: Any) -> list[dict[str, Any]]:
    """The text runs of a block, of its tables too."""
    if isinstance(block, list):
        return [run for each in block for run in runs(each)]
    if not isinstance(block, dict):
        return []
    return [block] if block.get("type") == "TextRun" else runs(list(block.values()))


def test_a_card_has_title_summary_fields_table_and_button(workflow):
    assert send(workflow) == "202"

    sent = json.loads(workflow.requests[0].body)["attachments"][0]["content"]
    assert workflow.requests[0].path == PATH
    assert [block["type"] for block in sent["body"]] == [
        "RichTextBlock",
        "RichTextBlock",
        "Table",
        "Table",
        "RichTextBlock",
    ]
    assert [run["text"] for run in runs(sent["body"])] == [
        "🟠 idle · node-014 GPU 3, 4",
        "2 GPUs idle since 09:10 (3 h 20 m)",
        *("Owner", "ana (nlp)", "So far", "$21.60"),
        *("GPU", "util", "3", "0 %", "4", "1 %"),
        "Fix: scancel 48213",
    ]
    assert [table["firstRowAsHeaders"] for table in sent["body"][2:4]] == [False, True]
    assert sent["actions"] == [
        {
            "type": "Action.OpenUrl",
            "title": "Open in FleetWatch",
            "url": "http://fleet.example/jobs/1",
        }
    ]


def test_buttons_lead_to_pages_and_those_without_one_are_left_out():
    acts = (Button("Ack", "ack", "http://f/7", "primary"), Button("Fixed", "fixed"))
    ends = (Button("Not waste", "not_waste", "http://f/8", "danger"),)

    actions = card(buttons=acts + ends)["actions"]

    assert [(each["title"], each.get("style")) for each in actions] == [
        ("Ack", "positive"),
        ("Not waste", "destructive"),
        ("Open in FleetWatch", None),
    ]


def test_a_gap_in_a_sparkline_keeps_its_place():
    texts = [
        run["text"] for run in runs(card(spark=(0.0, None, 1.0), spark_label="active")["body"])
    ]

    assert texts[6:8] == ["active", "▁\N{NO-BREAK SPACE}█"]


@pytest.mark.parametrize(
    "name", ["**b**", "[a](http://evil)", "<at>x</at>", "- x", "# x", "{{DATE(x)}}"]
)
def test_names_stand_where_no_markdown_is_read(name):
    sent = card(title=name, summary=name, fields=((name, name),), rows=((name,),), text=name)

    assert "TextBlock" not in {block["type"] for block in sent["body"]}
    assert [run["text"].removeprefix("🟠 ") for run in runs(sent["body"])] == [name] * 6


@pytest.mark.parametrize("character", ["x", '"', "é", "🟠"])
def test_everything_too_long_is_cut_to_28_kb_and_keeps_its_buttons(workflow, character):
    long = character * 5000
    send(
        workflow,
        message(
            title=long,
            summary=long,
            fields=tuple((long, long) for _ in range(25)),
            rows=tuple((long, long) for _ in range(300)),
            text="\n".join([long] * 50),
            buttons=tuple(Button(long, "ack", "http://fleet.example/7") for _ in range(30)),
            spark=(0.5,) * 5000,
        ),
    )

    sent = json.loads(workflow.requests[0].body)
    assert len(workflow.requests[0].body) > LIMIT / 3
    assert len(sent["attachments"][0]["content"]["actions"]) == 2


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_a_workflow_that_is_gone_is_permanent(workflow, status):
    workflow.answers.append((status, {}, '{"error":{"code":"WorkflowNotFound"}}'))

    with pytest.raises(TransportError) as caught:
        send(workflow)

    assert caught.value.permanent
    assert "s3cr3t" not in str(caught.value)


def test_a_card_that_is_refused_says_nothing_of_the_channel(workflow):
    workflow.answers.append((400, {}, "bad payload"))

    with pytest.raises(MessageRefusedError):
        send(workflow)


def test_a_workflow_that_is_throttled_says_when_to_come_back(workflow):
    workflow.answers.append((429, {"Retry-After": "12"}, ""))

    with pytest.raises(TransportError) as caught:
        send(workflow)

    assert (caught.value.permanent, caught.value.retry_after_s) == (False, 12.0)


def test_the_form_wants_an_address_and_shows_its_host_alone():
    with pytest.raises(ConfigError) as caught:
        TEAMS.validate({"webhook_url": "prod.example/x"})

    assert caught.value.errors == {
        "webhook_url": "The workflow address must begin with https:// or http://"
    }
    assert TEAMS.describe({"webhook_url": f"https://prod.example{PATH}"}) == "prod.example"
