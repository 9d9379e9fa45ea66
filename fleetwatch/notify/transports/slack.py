"""Slack incoming webhooks.
https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks/

Limits: https://docs.slack.dev/reference/block-kit/blocks/ (50 blocks, header 150, section
3,000 characters and 10 fields of 2,000). Mattermost's and Rocket.Chat's webhooks take the same.

Names of jobs, users and nodes stand in texts of type plain_text, which know no markup: `*x*`,
links, mentions and :emoji: are shown as they are typed. Only a table is markup, a code block, which
its cells can't end.
"""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any
from urllib.parse import urlsplit

from fleetwatch.lib import outbound
from fleetwatch.notify.message import Message, one_line
from fleetwatch.notify.transports.base import (
    Config,
    ConfigError,
    ConfigField,
    MessageRefusedError,
    TransportError,
    reaching,
    required,
)

MAX_BLOCKS = 50
MAX_HEADER = 150
MAX_SECTION = 3000
MAX_FIELD = 2000
MAX_FIELDS = 10
MAX_FALLBACK = 3000
MAX_BUTTON_URL = 3000
MAX_CELL = 48  # a table row must fit a chat window
TIMEOUT_S = 10
SIGNS = {"info": "🔵", "warning": "🟠", "resolved": "🟢"}
# The webhook or its channel is gone, or may not be used:
# https://docs.slack.dev/changelog/2016-05-17-changes-to-errors-for-incoming-webhooks
GONE = frozenset({301, 302, 303, 307, 308, 401, 403, 404, 405, 410})
REFUSED = frozenset({400, 413})  # invalid_payload and the like: this message, not this channel
ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


class Slack:
    """Posts to one channel of one workspace: the address is the secret."""

    kind = "slack"
    label = "Slack"
    fields: tuple[ConfigField, ...] = (
        ConfigField(
            "webhook_url",
            "Webhook address",
            help=(
                "Slack → Apps → Incoming Webhooks: https://hooks.slack.com/services/… Mattermost"
                " and Rocket.Chat addresses work too."
            ),
            is_secret=True,
        ),
    )

    def validate(self, config: Mapping[str, str]) -> Config:
        values, errors = required(self.fields, config)
        if not errors:
            try:
                outbound.check_url(values["webhook_url"])
            except ValueError as error:
                errors["webhook_url"] = f"The webhook address {error}"
        if errors:
            raise ConfigError(errors)
        return values

    def describe(self, config: Mapping[str, str]) -> str:
        return urlsplit(config["webhook_url"]).hostname or ""

    def send(
        self, config: Mapping[str, str], message: Message, *, identity: str, allow_private: bool
    ) -> str:
        with reaching():
            answer = outbound.post(
                config["webhook_url"],
                json=payload(message),
                timeout_s=TIMEOUT_S,
                allow_private=allow_private,
            )
        reply = f"{answer.status} {one_line(answer.text, 100)}".strip()
        if 200 <= answer.status < 300:
            return reply
        if answer.status in GONE:
            raise TransportError(
                f"Slack says {reply}: the webhook is gone or not allowed; make a new one",
                permanent=True,
            )
        if answer.status in REFUSED:
            raise MessageRefusedError(f"Slack says {reply}: it does not take this message")
        raise TransportError(f"Slack says {reply}", retry_after_s=_retry_after(answer.headers))


def payload(message: Message) -> dict[str, Any]:
    """The webhook's JSON: blocks within Slack's limits, and the plain text that
    notifications show.
    """
    title = f"{SIGNS[message.severity]} {one_line(message.title)}"
    blocks = [
        {"type": "header", "text": _plain(title, MAX_HEADER)},
        *_sections(message.summary),
        *_field_sections(message),
        *({"type": "section", "text": _code(part)} for part in _tables(message.rows)),
        *_sections(message.text),
    ]
    closing = [_button(message.url)] if message.url and len(message.url) <= MAX_BUTTON_URL else []
    return {
        "text": fit(f"{title}: {one_line(message.summary, MAX_FALLBACK)}", MAX_FALLBACK),
        "mrkdwn": False,
        "blocks": blocks[: MAX_BLOCKS - len(closing)] + closing,
    }


def fit(text: str, limit: int) -> str:
    """The text with &, < and > escaped as Slack wants, cut so that the escaped form has at most
    `limit` characters.
    """
    escaped = [ENTITIES.get(character, character) for character in text]
    if sum(map(len, escaped)) <= limit:
        return "".join(escaped)
    kept = []
    length = 1
    for part in escaped:
        length += len(part)
        if length > limit:
            break
        kept.append(part)
    return "".join(kept) + "…"


def _sections(text: str) -> list[dict[str, Any]]:
    lines = "\n".join(one_line(line, MAX_SECTION) for line in text.splitlines())
    return [{"type": "section", "text": _plain(lines, MAX_SECTION)}] if lines.strip() else []


def _pair(label: str, value: str) -> dict[str, Any]:
    return _plain(f"{one_line(label)}\n{one_line(value, MAX_FIELD) or '–'}", MAX_FIELD)


def _plain(text: str, limit: int) -> dict[str, Any]:
    return {"type": "plain_text", "text": fit(text, limit), "emoji": False}


def _code(text: str) -> dict[str, Any]:
    return {"type": "mrkdwn", "text": f"```\n{text}\n```", "verbatim": True}


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=False)]
    return fit("  ".join(padded).rstrip(), MAX_FIELD)


def _field_sections(message: Message) -> list[dict[str, Any]]:
    pairs = [_pair(label, value) for label, value in message.fields]
    return [
        {"type": "section", "fields": pairs[start : start + MAX_FIELDS]}
        for start in range(0, len(pairs), MAX_FIELDS)
    ]


def _tables(rows: tuple[tuple[str, ...], ...]) -> list[str]:
    """The rows as aligned text in as many code blocks as the section limit needs."""
    cells = [[_cell(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip_longest(*cells, fillvalue="")]
    blocks: list[str] = []
    lines: list[str] = []
    for row in cells:
        line = _aligned(row, widths)
        if lines and sum(map(len, lines)) + len(lines) + len(line) + 8 > MAX_SECTION:
            blocks.append("\n".join(lines))
            lines = []
        lines.append(line)
    if lines:
        blocks.append("\n".join(lines))
    return blocks


def _cell(text: str) -> str:
    return one_line(text, MAX_CELL).replace("`", "'")  # a backtick would end the code block


def _button(url: str) -> dict[str, Any]:
    text = {"type": "plain_text", "text": "Open in FleetWatch"}
    return {
        "type": "actions",
        "elements": [{"type": "button", "text": text, "url": url, "action_id": "open"}],
    }


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait as the answer says; None when it does not say it in seconds (Slack always
    does).
    """
    value = headers.get("retry-after", "").strip()
    return float(value) if value.isascii() and value.isdigit() and len(value) < 8 else None


SLACK = Slack()
