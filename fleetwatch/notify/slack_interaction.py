"""What people click in Slack: whether Slack sent it, what it says, the window that asks why.

Pure, but for the cache that remembers what came already. Requests:
https://docs.slack.dev/authentication/verifying-requests-from-slack and
https://docs.slack.dev/interactivity/handling-user-interaction
"""

import hashlib
import hmac
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

import msgspec
from django.core.cache import cache

from fleetwatch.notify.message import ACTIONS, one_line
from fleetwatch.notify.transports.slack_blocks import MEMBER

WINDOW_S = 300  # Slack's own advice: what is older, or that far ahead, is a replay
MAX_REASON = 300  # as an incident's history takes it
MAX_VALUE = 200  # a thread's name
REASON = "reason"


class InteractionError(ValueError):
    """The request is none that our messages can cause."""


@dataclass(frozen=True, slots=True)
class Interaction:
    """What somebody did.

    who: his member id. action: one of message.ACTIONS. value: the thread of the message
    ("incident/7"). trigger_id: opens a window, for 3 s. response_url: answers to the message of the
    click, for 30 minutes; "" after a window. reason: what was typed there; None = nothing was
    asked, it was the click.
    """

    who: str
    action: str
    value: str
    trigger_id: str
    response_url: str
    reason: str | None


def is_signed(body: bytes, *, timestamp: str, signature: str, secret: str, now_s: float) -> bool:
    """Whether Slack signed the request lately: `timestamp` and `signature` are the headers
    X-Slack-Request-Timestamp and X-Slack-Signature, "" where missing.
    """
    if not secret or not timestamp.isascii() or not timestamp.isdigit() or len(timestamp) > 12:
        return False
    if abs(now_s - int(timestamp)) > WINDOW_S:
        return False
    signed = b"v0:" + timestamp.encode() + b":" + body
    expected = "v0=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected.encode(), signature.encode())


def is_first(signature: str) -> bool:
    """Whether no request with this signature came before; remembered for as long as one can be
    within the window. Ask it of signed requests only: strangers' fill no cache.
    """
    digest = hashlib.sha256(signature.encode()).hexdigest()
    return bool(cache.add(f"slack-interaction/{digest}", 1, timeout=2 * WINDOW_S))


def parse(body: bytes) -> Interaction:
    """What the request says. Raises InteractionError."""
    try:
        sent = msgspec.json.decode(_payload(body), type=_Payload)
    except (msgspec.DecodeError, ValueError) as error:
        raise InteractionError("it is no interaction of Slack's") from error
    if sent.type == "view_submission" and sent.view is not None:
        return _submitted(sent, sent.view)
    if sent.type == "block_actions" and len(sent.actions) == 1:
        [act] = sent.actions
        return _checked(sent, act.action_id, act.value or "", reason=None)
    raise InteractionError(f"an interaction of type {one_line(sent.type, 40)} is not ours")


def reason_modal(value: str) -> dict[str, Any]:
    """The window that asks why it is no waste, for views.open; its submission brings the value and
    the reason. https://docs.slack.dev/reference/views/modal-views
    """
    return {
        "type": "modal",
        "callback_id": "not_waste",
        "private_metadata": value,
        "title": _text("Not waste"),
        "submit": _text("Save"),
        "close": _text("Cancel"),
        "blocks": [
            {
                "type": "input",
                "block_id": REASON,
                "label": _text("Why is it not waste?"),
                "element": {
                    "type": "plain_text_input",
                    "action_id": REASON,
                    "multiline": True,
                    "min_length": 3,
                    "max_length": MAX_REASON,
                },
            }
        ],
    }


class _User(msgspec.Struct):
    id: str


class _Action(msgspec.Struct):
    action_id: str
    value: str | None = None  # none of a link's


class _Input(msgspec.Struct):
    value: str | None = None


class _State(msgspec.Struct):
    values: dict[str, dict[str, _Input]]


class _View(msgspec.Struct):
    callback_id: str
    private_metadata: str
    state: _State


class _Payload(msgspec.Struct):
    type: str
    user: _User
    actions: list[_Action] = []
    view: _View | None = None
    trigger_id: str | None = None
    response_url: str | None = None


def _payload(body: bytes) -> str:
    fields = parse_qs(body.decode(), max_num_fields=10)
    return fields.get("payload", [""])[0]


def _submitted(sent: _Payload, view: _View) -> Interaction:
    typed = view.state.values.get(REASON, {}).get(REASON, _Input()).value or ""
    reason = one_line(typed, MAX_REASON)
    if not reason:
        raise InteractionError("the window came back without a reason")
    return _checked(sent, view.callback_id, view.private_metadata, reason=reason)


def _checked(sent: _Payload, action: str, value: str, *, reason: str | None) -> Interaction:
    if action not in ACTIONS:
        raise InteractionError(f"{one_line(action, 40)} is no action of ours")
    if not MEMBER.fullmatch(sent.user.id) or len(value) > MAX_VALUE:
        raise InteractionError("it names no member, or nothing of ours")
    return Interaction(
        who=sent.user.id,
        action=action,
        value=value,
        trigger_id=sent.trigger_id or "",
        response_url=sent.response_url or "",
        reason=reason,
    )


def _text(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text}
