"""Microsoft Teams by a workflow of Power Automate ("When a Teams webhook request is received").
https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using:
an Adaptive Card in `attachments`, 28 kB at most; 202 says that the workflow took it.

Names of jobs, users and nodes stand in text runs, which know no Markdown:
https://adaptivecards.io/explorer/TextRun.html
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from fleetwatch.notify.message import SIGNS, Message, one_line, sparkline
from fleetwatch.notify.transports.base import (
    Block,
    Config,
    ConfigError,
    ConfigField,
    Envelope,
    Receipt,
    fitting,
    required,
    url_error,
)
from fleetwatch.notify.transports.posting import Service

MAX_BYTES = 28 * 1024
FRAME = 1024  # of it: what stands around the card's body
MAX_TEXT = 2000
MAX_ACTIONS = (
    6  # more are not shown: https://learn.microsoft.com/adaptive-cards/sdk/rendering-cards
)
MAX_SPARK = 60
TABLE_ROWS = 5  # of a long table, that stand or fall together
STYLES = {"": {}, "primary": {"style": "positive"}, "danger": {"style": "destructive"}}


class Teams:
    """Posts to the chat or channel of one workflow."""

    kind = "teams"
    label = "Microsoft Teams"
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
        values, errors = required(self.fields, config)
        errors |= url_error(values, "webhook_url", "The workflow address")
        if errors:
            raise ConfigError(errors)
        return values

    def describe(self, config: Mapping[str, str]) -> str:
        return urlsplit(config["webhook_url"]).hostname or ""

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
        "version": "1.5",  # Table
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
        *_tables(message.fields, has_head=False),
        *_spark(message),
        *_tables(message.rows, has_head=True),
        *(_text(line) for line in message.text.splitlines() if line.strip()),
    ]


def _actions(message: Message) -> list[Block]:
    return [
        {"type": "Action.OpenUrl", "title": one_line(link.label, 75), "url": link.url}
        | STYLES[link.style]
        for link in message.links
    ]


def _tables(rows: Sequence[Sequence[str]], *, has_head: bool) -> list[Block]:
    """The rows as tables of a few, one below the other, so that some of a long one fit."""
    columns = [{"width": 1} for _ in max(rows, key=len, default=())]
    return [
        {
            "type": "Table",
            "columns": columns,
            "firstRowAsHeaders": has_head and start == 0,
            "showGridLines": False,
            "rows": [_row(row) for row in rows[start : start + TABLE_ROWS]],
        }
        for start in range(0, len(rows), TABLE_ROWS)
    ]


def _row(cells: Sequence[str]) -> Block:
    shown = [{"type": "TableCell", "items": [_text(one_line(cell) or "–")]} for cell in cells]
    return {"type": "TableRow", "cells": shown}


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
