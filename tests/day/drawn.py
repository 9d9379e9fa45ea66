"""Messages as their readers see them: Slack's blocks and a mail's HTML as pages to take pictures
of.
"""

import base64
import re
from email.message import EmailMessage
from html import escape
from typing import Any

Block = dict[str, Any]

# Slack's own look, as far as blocks go
PAGE = """<!doctype html><meta charset="utf-8"><style>
body {{ font: 15px/1.46 Lato, "Noto Sans", sans-serif; color: #1d1c1d; margin: 16px; width: 620px; }}
.who {{ font-weight: 900; }} .who small {{ font-weight: 400; color: #616061; font-size: 12px; }}
.app {{ background: #ddd; border-radius: 2px; font-size: 10px; font-weight: 700; padding: 1px 3px; }}
.message {{ margin: 8px 0 8px 44px; }} .reply {{ margin-left: 72px; border-left: 4px solid #ddd;
padding-left: 12px; }}
h3 {{ font-size: 18px; margin: 4px 0 8px; }} p {{ margin: 4px 0 8px; white-space: pre-line; }}
.fields {{ display: grid; grid-template-columns: 1fr 1fr; gap: 4px 16px; white-space: pre-line; }}
pre {{ background: #f8f8f8; border: 1px solid #ddd; border-radius: 4px; padding: 8px;
font-size: 12px; }}
button {{ font: 700 13px Lato, sans-serif; background: #fff; border: 1px solid #bbb;
border-radius: 4px; padding: 5px 11px; margin: 4px 6px 4px 0; }}
.primary {{ background: #007a5a; color: #fff; border-color: #007a5a; }}
.danger {{ background: #e01e5a; color: #fff; border-color: #e01e5a; }}
</style>{}"""


def slack_page(messages: list[Block]) -> str:
    """The messages below each other, replies indented."""
    return PAGE.format("".join(map(_message, messages)))


def _message(message: Block) -> str:
    kind = "message reply" if "thread_ts" in message else "message"
    edited = " <small>(edited)</small>" if "edited" in message else ""
    blocks = "".join(_block(block) for block in message["blocks"])
    who = f'<div class="who">FleetWatch <span class="app">APP</span>{edited}</div>'
    return f'<div class="{kind}">{who}{blocks}</div>'


def _block(block: Block) -> str:
    if block["type"] == "header":
        return f"<h3>{_plain(block['text'])}</h3>"
    if block["type"] == "actions":
        return "".join(_button(each) for each in block["elements"])
    if "fields" in block:
        cells = "".join(f"<div>{_plain(each)}</div>" for each in block["fields"])
        return f'<div class="fields">{cells}</div>'
    text = block["text"]
    if text["type"] == "mrkdwn":
        return f"<pre>{text['text'].strip('`').strip()}</pre>"
    return f"<p>{_plain(text)}</p>"


def _button(button: Block) -> str:
    return f'<button class="{button.get("style", "")}">{_plain(button["text"])}</button>'


def _plain(text: Block) -> str:
    """Slack's escapes are HTML's."""
    assert text["type"] == "plain_text"
    return str(text["text"])


def mail_page(mail: EmailMessage) -> str:
    """The mail's HTML, its pictures in it."""
    [html] = [part for part in mail.walk() if part.get_content_type() == "text/html"]
    pictures = {
        str(part["Content-ID"]).strip("<>"): base64.b64encode(
            part.get_payload(decode=True)
        ).decode()
        for part in mail.walk()
        if part["Content-ID"]
    }
    head = f"<title>{escape(str(mail['Subject']))}</title>"
    return head + re.sub(
        r"cid:([^\"']+)", lambda held: f"data:image/png;base64,{pictures[held[1]]}",
        html.get_content(),
    )  # fmt: skip
