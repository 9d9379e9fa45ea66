"""A message as text: the part of a mail without HTML, and what pages show of what was sent."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
from django.template.loader import render_to_string

from fleetwatch.notify.message import Message


def plain_text(message: Message, *, chart: object = None, links: Sequence[object] = ()) -> str:
    """The message as a mail's text; `chart` has what its curve shows in words (`alt`)."""
    shown = {
        "message": message,
        "chart": chart,
        "links": links,
        "head": message.rows[:1],
        "rows": message.rows[1:],
    }
    return render_to_string("notify/message.txt", shown)


def preview(stored: Mapping[str, Any]) -> str:
    """A stored message as text, without what only its reader may press: links that are signed for
    one person. "" = it is stored in a form that is no longer read.
    """
    try:
        message = msgspec.convert(stored, Message)
    except msgspec.ValidationError:
        return ""
    text = plain_text(replace(message, buttons=(), url="", unsubscribe_url=""))
    return text.strip()  # str, no SafeString any more: a page has to escape it
