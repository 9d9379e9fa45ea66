"""Microsoft Teams by a workflow of Power Automate ("When a Teams webhook request is received").
https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using:
an Adaptive Card in `attachments`. 202 says that the workflow took it, and nothing of whether its
next step posts it: of a card of more than 28 kB that step fails, and nobody here hears of it
(https://learn.microsoft.com/connectors/teams/#known-issues-and-limitations-with-actions).

Names of jobs, users and nodes stand in text runs, which know no Markdown:
https://adaptivecards.io/explorer/TextRun.html
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from fleetwatch.notify.message import SIGNS, Message, one_line, sparkline
from fleetwatch.notify.transports.base import (
    Block,
    Config,
    ConfigField,
    Envelope,
    Receipt,
    checked,
    fitting,
    host_of,
    url_check,
)
from fleetwatch.notify.transports.posting import Service

MAX_BYTES = 28 * 1000  # "about 28 KB": the less of both readings
# Documented are 1.5 and its tables; what workflows post of 1.5 is not displayed:
# https://github.com/microsoft/AdaptiveCards/issues/8965 and
# https://github.com/MicrosoftDocs/msteams-docs/issues/9801
VERSION = "1.4"
FRAME = 1024  # of it: what stands around the card's body
MAX_TEXT = 2000
MAX_SPARK = 60
HEAD = {"weight": "Bolder"}
STYLES = {"": {}, "primary": {"style": "positive"}, "danger": {"style": "destructive"}}


class Teams:
    """Posts to the chat or channel of one workflow."""

    kind = "teams"
    label = "Microsoft Teams"
    needs = "The address of a workflow of the channel: Send webhook alerts to a channel."
    can_edit = False
    person_by = ""
    fields: tuple[ConfigField, ...] = (
        ConfigField(
            "webhook_url",
            "Workflow address",
            help=(
                "Teams → the channel → Workflows → Send webhook alerts to a channel: the address"
                " that it shows at the end."
            ),
            is_secret=True,
        ),
    )

    def validate(self, config: Mapping[str, str]) -> Config:
        return checked(self.fields, config, url_check("webhook_url", "The workflow address"))

    def describe(self, config: Mapping[str, str]) -> str:
        return host_of(config["webhook_url"])

    def send(
        self, config: Mapping[str, str], envelope: Envelope, *, allow_private: bool
    ) -> Receipt:
        service = Service("Teams", allow_private)
        answer = service.post(config["webhook_url"], payload(envelope.message))
        return Receipt(service.accepted(answer))


def payload(message: Message) -> Block:
    """The message's JSON within Teams' limit: what does not fit is left out before the buttons."""
    actions = _actions(message)
    room = MAX_BYTES - FRAME - _length(actions)
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": VERSION,
        "msteams": {"width": "Full"},
        "body": fitting(_body(message), room, _length),
        "actions": actions,
    }
    content_type = "application/vnd.microsoft.card.adaptive"
    return {
        "type": "message",
        "attachments": [{"contentType": content_type, "contentUrl": None, "content": card}],
    }


def _body(message: Message) -> list[Block]:
    title = f"{SIGNS[message.severity]} {one_line(message.title)}"
    return [
        _text(title, weight="Bolder", size="Large"),
        _text(message.summary),
        *map(_row, message.fields),
        *_spark(message),
        *(_row(row, **HEAD) for row in message.rows[:1]),
        *map(_row, message.rows[1:]),
        *(_text(line) for line in message.text.splitlines() if line.strip()),
    ]


def _actions(message: Message) -> list[Block]:
    return [
        {"type": "Action.OpenUrl", "title": one_line(link.label, 75), "url": link.url}
        | STYLES[link.style]
        for link in message.links
    ]


def _row(cells: Sequence[str], **style: str) -> Block:
    """Columns of the same share of the width: so those of rows below each other are in line."""
    columns = [
        {"type": "Column", "width": 1, "items": [_text(one_line(cell) or "–", **style)]}
        for cell in cells
    ]
    return {"type": "ColumnSet", "spacing": "Small", "columns": columns}


def _spark(message: Message) -> list[Block]:
    if not message.has_spark:
        return []
    line = sparkline(message.spark[-MAX_SPARK:]).replace(" ", "\N{NO-BREAK SPACE}")
    return [_text(message.spark_label, isSubtle=True), _run(line, fontType="Monospace")]


def _text(text: str, **style: Any) -> Block:
    return _run(one_line(text, MAX_TEXT) or "–", **style)


def _run(text: str, **style: Any) -> Block:
    return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text, **style}]}


def _length(block: Any) -> int:
    return len(msgspec.json.encode(block)) + 1  # its comma


TEAMS = Teams()
