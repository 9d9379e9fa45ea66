"""A message as text: the part of a mail without HTML, and what pages show of what was sent."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
from django.template.loader import render_to_string

from fleetwatch.notify.message import PAGES, Item, Listing, Message, Paragraph, one_line

WIDTH = 76  # RFC 5322 2.1.1 wants lines below 79
INDENT = "  "
CODE = " " * 6  # before what is to be typed: it stays on its line


def plain_text(message: Message, *, chart: object = None, links: Sequence[object] = ()) -> str:
    """The message as a mail's text; `chart` has what its curve shows in words (`alt`). Of one with
    lists no line is wider than a mail's, but for addresses and what is to be typed.
    """
    shown = {
        "message": message,
        "chart": chart,
        "links": links,
        "head": message.rows[:1],
        "rows": message.rows[1:],
        "settings": f"Change or stop it: {message.settings_url}"
        if message.settings_url
        else "Channels and rules: settings.",
        "closing": "\n".join(map(_paragraph, message.paragraphs)) or message.text,
        "lists": "\n\n".join(map(_listed, message.lists)),
    }
    text = render_to_string("notify/message.txt", shown)
    return "\n".join(map(_wrapped, text.split("\n"))) if message.lists else text


def preview(stored: Mapping[str, Any]) -> str:
    """A stored message as text, as everybody may see it. "" = it is stored in a form that is no
    longer read.
    """
    message = without_own_links(stored)
    # str, no SafeString any more: a page has to escape it
    return "" if message is None else plain_text(message).strip()


def without_own_links(stored: Mapping[str, Any]) -> Message | None:
    """A stored message without what only its reader may press: links that are signed for one
    person. What an incident's message leads to is its page, where who may can act, and pages that
    are the same for everybody. None = it is stored in a form that is no longer read.
    """
    try:
        message = msgspec.convert(stored, Message)
    except msgspec.ValidationError:
        return None
    page = message.url if message.status else ""
    buttons = tuple(
        each for each in message.buttons if page and (each.url == page or each.action in PAGES)
    )
    return replace(message, buttons=buttons, url=page, unsubscribe_url="")


def _paragraph(paragraph: Paragraph) -> str:
    code = f"\n\n{CODE}{one_line(paragraph.code, 1000)}\n" if paragraph.code else ""
    return f"{paragraph.text}{code}"


def _listed(listing: Listing) -> str:
    items = ["\n".join(_item_lines(item)) for item in listing.items]
    is_long = any(item.text or item.cause for item in listing.items)
    heading = f"{listing.title}\n{'-' * len(listing.title)}"
    return "\n".join([heading, ("\n\n" if is_long else "\n").join(items)])


def _item_lines(item: Item) -> Iterator[str]:
    yield "  ".join(filter(None, (item.value, one_line(item.title))))
    for line in (item.about, item.cause, item.text):
        if line:
            yield f"{INDENT}{line}"
    if item.code:
        yield from ("", f"{CODE}{one_line(item.code, 1000)}", "")
    for address in (item.cause_url, item.url):
        if address:
            yield f"{INDENT}{address}"


def _wrapped(line: str) -> str:
    if len(line) <= WIDTH or line.startswith(CODE):
        return line
    indent = line[: len(line) - len(line.lstrip())] or INDENT
    return textwrap.fill(
        line,
        WIDTH,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
