"""Against a fake of Power Automate's "When a Teams webhook request is received".

From the documentation, as of 2026: https://learn.microsoft.com/connectors/teams says that a message
of more than about 28 KB fails in the action that posts it ("Request entity too large"), which comes
after the trigger; a trigger without a Response action answers 202 at once, whatever comes of it
(https://learn.microsoft.com/azure/connectors/connectors-native-reqres). So who sends too much hears
202, and nobody reads it. 429 comes of a workflow that is called too often, and of Teams' own limits
(four requests a second at one address:
https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using).
What is displayed of cards: https://github.com/microsoft/AdaptiveCards/issues/8965.
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

LIMIT = 28_000
PATH = "/workflows/7f/triggers/manual/paths/invoke?sig=s3cr3t"


# what there is in 1.4: https://adaptivecards.io/explorer
ELEMENTS = {"RichTextBlock", "ColumnSet", "Column", "TextRun"}
WEIGHTS = ("Lighter", "Default", "Bolder")


def taken(_: Request) -> Answer:
    """202 without a body, whatever it was."""
    return 202, {}, ""


def displayed(request: Request) -> dict[str, Any]:
    """The card that Teams shows of it. Raises AssertionError where it shows none."""
    assert len(request.body) <= LIMIT
    assert request.headers["content-type"].startswith("application/json")
    sent = json.loads(request.body)
    [attachment] = sent["attachments"]
    card = attachment["content"]
    assert sent["type"] == "message"
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    assert (card["type"], card["version"]) == ("AdaptiveCard", "1.4")
    assert set(types(card["body"])) <= ELEMENTS
    assert {each["type"] for each in card["actions"]} <= {"Action.OpenUrl"}
    assert all(run.get("weight", "Default") in WEIGHTS for run in runs(card["body"]))
    return card


def types(block: Any) -> list[str]:
    """The type of each element, in whatever it lies."""
    if isinstance(block, list):
        return [each for part in block for each in types(part)]
    if not isinstance(block, dict):
        return []
    own = [block["type"]] if "type" in block else []
    return own + types(list(block.values()))


@pytest.fixture
def workflow() -> Iterator[PostServer]:
    server = PostServer(taken)
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

    sent = displayed(workflow.requests[0])
    assert workflow.requests[0].path == PATH
    assert [block["type"] for block in sent["body"]] == [
        "RichTextBlock",
        "RichTextBlock",
        *["ColumnSet"] * 5,
        "RichTextBlock",
    ]
    assert [run["text"] for run in runs(sent["body"])] == [
        "🟠 idle · node-014 GPU 3, 4",
        "2 GPUs idle since 09:10 (3 h 20 m)",
        *("Owner", "ana (nlp)", "So far", "$21.60"),
        *("GPU", "util", "3", "0 %", "4", "1 %"),
        "Fix: scancel 48213",
    ]
    heavy = [run["text"] for run in runs(sent["body"]) if run.get("weight") == "Bolder"]
    assert heavy == ["🟠 idle · node-014 GPU 3, 4", "GPU", "util"]
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

    assert "TextBlock" not in types(sent["body"])
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

    card = displayed(workflow.requests[0])
    assert len(workflow.requests[0].body) > LIMIT / 3
    assert len(card["actions"]) == 2


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
