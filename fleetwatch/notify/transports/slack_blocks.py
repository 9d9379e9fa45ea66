"""A message as Slack's blocks, for the webhook and the app.

Limits: https://docs.slack.dev/reference/block-kit/blocks/ (50 blocks, header 150, section
3,000 characters and 10 fields of 2,000; a button's text 75 characters, its value 2,000, its url
3,000, and of one action_id one only).

Names of jobs, users and nodes stand in texts of type plain_text, which know no markup: `*x*`,
links, mentions and :emoji: are shown as they are typed. Only tables and sparklines are markup, code
blocks, which their cells can't end.
"""

import json
import re
from collections.abc import Sequence
from itertools import zip_longest

from fleetwatch.notify.message import OPENING, SIGNS, Button, Message, one_line, sparkline
from fleetwatch.notify.transports.base import Block, fitting

MAX_BLOCKS = 50
# All blocks together; documented nowhere: msg_blocks_too_long came from 13,172 characters on.
# https://github.com/slackapi/bolt-js/issues/2509
MAX_TOTAL = 12_500
MAX_HEADER = 150
MAX_SECTION = 3000
MAX_FIELD = 2000
MAX_FIELDS = 10
MAX_FALLBACK = 3000
MAX_BUTTON_TEXT = 75
MAX_BUTTON_URL = 3000
MAX_CELL = 48  # a table row must fit a chat window
MAX_SPARK = 60  # and so must a sparkline
ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
MEMBER = re.compile(r"[UW][A-Z0-9]{2,30}")  # a member's id


def payload(message: Message, buttons: Sequence[Block]) -> Block:
    """The message's JSON: blocks within Slack's limits, and the plain text that notifications
    show. The buttons, of each action the first, are its last block; what does not fit is left out
    before them.
    """
    title = f"{SIGNS[message.severity]} {one_line(message.title)}"
    closing = _actions(buttons)
    content = _content(message, title)[: MAX_BLOCKS - len(closing)]
    room = MAX_TOTAL - sum(map(_length, closing))
    return {
        "text": fit(f"{title}: {one_line(message.summary, MAX_FALLBACK)}", MAX_FALLBACK),
        "mrkdwn": False,
        "blocks": fitting(content, room, _length) + closing,
    }


def url_buttons(message: Message) -> list[Block]:
    """The message's buttons as links, then its own; what has no address that Slack takes is left
    out.
    """
    return [button(each, url=each.url) for each in message.links if len(each.url) <= MAX_BUTTON_URL]


def click_buttons(message: Message, value: str) -> list[Block]:
    """The message's buttons as clicks that bring the value to us; those that open a page are
    links.
    """
    clicks = [button(each, value=value) for each in message.buttons if each.action not in OPENING]
    return clicks + [each for each in url_buttons(message) if each["action_id"] in OPENING]


def button(given: Button, **target: str) -> Block:
    """One button; the target is a `url`, or the `value` that its click brings."""
    text = {"type": "plain_text", "text": fit(one_line(given.label), MAX_BUTTON_TEXT)}
    style = {"style": given.style} if given.style else {}
    return {"type": "button", "text": text, "action_id": given.action, **target, **style}


def fit(text: str, limit: int) -> str:
    """The text with &, < and > escaped as Slack wants, cut so that the escaped form has at most
    `limit` characters.
    """
    # what lies behind the limit decides no more than that there is something
    escaped = [ENTITIES.get(character, character) for character in text[: limit + 1]]
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


def _content(message: Message, title: str) -> list[Block]:
    return [
        {"type": "header", "text": _plain(title, MAX_HEADER)},
        *_sections(message.summary),
        *_field_sections(message),
        *_code_sections(_sparks(message)),
        *_code_sections(_tables(message.rows)),
        *_sections(message.text),
    ]


def _actions(buttons: Sequence[Block]) -> list[Block]:
    distinct = {each["action_id"]: each for each in reversed(buttons)}
    elements = list(reversed(distinct.values()))
    return [{"type": "actions", "elements": elements}] if elements else []


def _length(block: Block) -> int:
    return len(json.dumps(block, ensure_ascii=False))


def _code_sections(texts: list[str]) -> list[Block]:
    return [{"type": "section", "text": _code(text)} for text in texts]


def _sections(text: str) -> list[Block]:
    lines = "\n".join(one_line(line, MAX_SECTION) for line in text.splitlines())
    return [{"type": "section", "text": _plain(lines, MAX_SECTION)}] if lines.strip() else []


def _pair(label: str, value: str) -> Block:
    return _plain(f"{one_line(label)}\n{one_line(value, MAX_FIELD) or '–'}", MAX_FIELD)


def _plain(text: str, limit: int) -> Block:
    return {"type": "plain_text", "text": fit(text, limit), "emoji": False}


def _code(text: str) -> Block:
    return {"type": "mrkdwn", "text": f"```\n{text}\n```", "verbatim": True}


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=False)]
    return fit("  ".join(padded).rstrip(), MAX_FIELD)


def _field_sections(message: Message) -> list[Block]:
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


def _cell(text: str, limit: int = MAX_CELL) -> str:
    return one_line(text, limit).replace("`", "'")  # a backtick would end the code block


def _sparks(message: Message) -> list[str]:
    """The sparkline under its label, of a longer series the newest values; nothing where nothing
    was measured.
    """
    if not message.has_spark:
        return []
    label = _cell(message.spark_label, MAX_SPARK)
    return ["\n".join(filter(None, (label, sparkline(message.spark[-MAX_SPARK:]))))]
