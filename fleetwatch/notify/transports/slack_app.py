"""A Slack app with a bot token: messages that change, replies below them, direct messages, buttons.
https://docs.slack.dev/reference/methods/chat.postMessage and chat.update

Scope: chat:write (for a public channel that the app is not in also chat:write.public). A direct
message goes to a member's id as its channel, which needs no other scope.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from fleetwatch.lib import outbound
from fleetwatch.notify.message import one_line
from fleetwatch.notify.transports.base import (
    AddressRefusedError,
    Block,
    Config,
    ConfigField,
    Envelope,
    MessageRefusedError,
    Receipt,
    TransportError,
    checked,
    retry_after_s,
    url_check,
)
from fleetwatch.notify.transports.posting import TIMEOUT_S, Service
from fleetwatch.notify.transports.slack_blocks import (
    MAX_FALLBACK,
    MEMBER,
    click_buttons,
    fit,
    payload,
    url_buttons,
)

SHAPES = (
    ("bot_token", re.compile(r"xoxb-[A-Za-z0-9-]{1,200}"), "A bot token begins with xoxb-"),
    (
        "channel",
        re.compile(r"[CGD][A-Z0-9]{2,30}|#[^\s#@,.]{1,80}"),
        "Channel must be an id like C0123456789, or #name",
    ),
    (
        "signing_secret",
        re.compile(r"[A-Za-z0-9]{1,200}"),
        "A signing secret is of letters and digits",
    ),
)
# What Slack says, and what to do about it. The first stop the channel.
STOPS = {
    "not_authed": "the token is missing",
    "invalid_auth": "the token is wrong",
    "account_inactive": "the app was removed, or its workspace is gone",
    "token_revoked": "the token was revoked",
    "token_expired": "the token has expired",
    "not_allowed_token_type": "it wants a bot token",
    "missing_scope": "give the app the scope chat:write and install it again",
    "no_permission": "give the app the scope chat:write and install it again",
    "channel_not_found": "there is no such channel, or it is private and the app is not in it",
    "not_in_channel": "invite the app to the channel",
    "is_archived": "the channel is archived",
    "restricted_action": "the workspace does not let the app post there",
    "restricted_action_read_only_channel": "the workspace does not let the app post there",
    "team_access_not_granted": "the app is not approved for this workspace",
    "access_denied": "the app may not do that",
    "ekm_access_denied": "the workspace's administrators have suspended posting",
    "org_login_required": "the workspace is being moved to an organisation",
    "enterprise_is_restricted": "the app can't be used by this organisation",
}
# of one person's direct messages; what stops a channel of these says nothing of it
NOT_THIS_PERSON = frozenset(
    {
        "channel_not_found",
        "not_in_channel",
        "is_archived",
        "restricted_action",
        "user_not_found",
        "users_not_found",
        "user_not_visible",
        "user_disabled",
        "cannot_dm_bot",
        "messages_tab_disabled",
    }
)
NOT_THIS_MESSAGE = frozenset(
    {
        "msg_too_long",
        "msg_blocks_too_long",
        "invalid_blocks",
        "invalid_blocks_format",
        "no_text",
        "invalid_arguments",
        "invalid_json",
        "invalid_charset",
        "too_many_attachments",
    }
)
# What stood of the thread is gone, or where it stood: then it is posted anew.
NOTHING_STANDS = frozenset(
    {
        "message_not_found",
        "cant_update_message",
        "edit_window_closed",
        "thread_not_found",
        "cannot_reply_to_message",
        "channel_not_found",
        "not_in_channel",
        "is_archived",
    }
)
SLOW_DOWN = frozenset({"ratelimited", "rate_limited", "message_limit_exceeded"})


class NotOKError(Exception):
    """Slack took the call and refused it; the text is its code."""


@dataclass(frozen=True, slots=True)
class API:
    """One workspace's Web API, as a channel's settings say."""

    config: Mapping[str, str]
    allow_private: bool
    timeout_s: float = TIMEOUT_S

    def call(self, method: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The method's answer. Raises NotOKError, TransportError."""
        answer = Service("Slack", self.allow_private, self.timeout_s).post(
            f"{self.config['api_url'].rstrip('/')}/{method}",
            body,
            headers={"Authorization": f"Bearer {self.config['bot_token']}"},
        )
        content = _content(answer)
        code = str(content.get("error", ""))
        if answer.status != 200 or code in SLOW_DOWN:
            raise TransportError(
                f"Slack says {answer.status} {one_line(code, 60)}".strip(),
                retry_after_s=retry_after_s(answer.headers),
            )
        if content.get("ok") is not True:
            raise NotOKError(one_line(code, 60) or "nothing that is JSON")
        return content


class SlackApp:
    """Posts to one channel and to people, and changes what it posted."""

    kind = "slack_app"
    label = "Slack app"
    needs = (
        "A Slack app with the bot scope chat:write, invited to the channel: its bot token, and its"
        " signing secret where buttons should act. One message per incident, direct messages too."
    )
    can_edit = True
    person_by = "slack"
    fields: tuple[ConfigField, ...] = (
        ConfigField(
            "bot_token",
            "Bot token",
            help="api.slack.com/apps → OAuth & Permissions: xoxb-…, with the scope chat:write.",
            is_secret=True,
        ),
        ConfigField("channel", "Channel", help="Its id (C0123456789) or #name."),
        ConfigField(
            "signing_secret",
            "Signing secret",
            help=(
                "Basic Information → Signing Secret, where Interactivity is switched on. Empty:"
                " buttons lead to pages."
            ),
            is_required=False,
            is_secret=True,
        ),
        ConfigField("api_url", "Address of the API", default="https://slack.com/api"),
    )

    def validate(self, config: Mapping[str, str]) -> Config:
        is_url = url_check("api_url", "The address of the API")
        return checked(self.fields, config, _shape_errors, is_url)

    def describe(self, config: Mapping[str, str]) -> str:
        return f"{config['channel']} and people by their member ids"

    def send(
        self, config: Mapping[str, str], envelope: Envelope, *, allow_private: bool
    ) -> Receipt:
        if envelope.address and not MEMBER.fullmatch(envelope.address):
            raise AddressRefusedError(f"{one_line(envelope.address, 60)} is no Slack member id")
        api = API(config, allow_private)
        content = payload(envelope.message, _buttons(config, envelope))
        try:
            return _change(api, envelope, content) or _post(api, envelope, content)
        except NotOKError as error:
            raise _judged(str(error), envelope.address) from error


def open_window(api: API, trigger_id: str, view: Block) -> None:
    """Opens a modal for who clicked, within 3 s of the click. Raises TransportError.

    https://docs.slack.dev/reference/methods/views.open
    """
    try:
        api.call("views.open", {"trigger_id": trigger_id, "view": view})
    except NotOKError as error:
        raise _judged(str(error), "") from error


def answer_click(url: str, text: str, *, timeout_s: float, allow_private: bool) -> None:
    """Says it to who clicked, at the click's `response_url`. Raises TransportError.

    https://docs.slack.dev/interactivity/handling-user-interaction#message_responses
    """
    content = {
        "response_type": "ephemeral",
        "replace_original": False,
        "text": fit(one_line(text, MAX_FALLBACK), MAX_FALLBACK),
        "mrkdwn": False,
    }
    try:
        answer = Service("Slack", allow_private, timeout_s).post(url, content)
    except ValueError as error:
        raise TransportError("the click came without an address for its answer") from error
    if answer.status != 200:
        raise TransportError(f"Slack says {answer.status} {one_line(answer.text, 60)}".strip())


def _shape_errors(values: Config) -> dict[str, str]:
    return {
        name: text
        for name, shape, text in SHAPES
        if values[name] and not shape.fullmatch(values[name])
    }


def _change(api: API, envelope: Envelope, content: Block) -> Receipt | None:
    """What became of what stands of the thread: it was edited, or replied to. None: nothing
    stands, any more or yet.
    """
    place, _, ts = envelope.remote_id.partition("/")
    if not ts:
        return None
    is_reply = envelope.message.is_reply
    # Slack keeps a message's former blocks unless it is given others: here it always is
    where = {"thread_ts": ts} if is_reply else {"ts": ts}
    try:
        api.call(_method(is_reply), content | {"channel": place} | where)
    except NotOKError as error:
        if str(error) in NOTHING_STANDS:
            return None
        raise
    return Receipt("replied" if is_reply else "edited", envelope.remote_id)


def _method(is_new: bool) -> str:
    return "chat.postMessage" if is_new else "chat.update"


def _post(api: API, envelope: Envelope, content: Block) -> Receipt:
    to = {"channel": envelope.address or api.config["channel"]}
    unfurled = {"unfurl_links": False, "unfurl_media": False}
    posted = api.call(_method(is_new=True), content | unfurled | to)
    # of a direct message Slack says the conversation, which an edit must name
    return Receipt("posted", f"{posted['channel']}/{posted['ts']}")


def _buttons(config: Mapping[str, str], envelope: Envelope) -> list[Block]:
    """Clicks are answered where Slack can sign them to us."""
    if config["signing_secret"]:
        return click_buttons(envelope.message, envelope.thread)
    return url_buttons(envelope.message)


def _content(answer: outbound.Answer) -> dict[str, Any]:
    """The answer's JSON object; empty where it is none (a gateway's page)."""
    try:
        return msgspec.json.decode(answer.text, type=dict[str, Any])
    except msgspec.DecodeError:
        return {}


def _judged(code: str, address: str) -> TransportError:
    if address and code in NOT_THIS_PERSON:
        return AddressRefusedError(f"Slack says {code} of {address}")
    if code in STOPS:
        return TransportError(f"Slack says {code}: {STOPS[code]}", permanent=True)
    if code in NOT_THIS_MESSAGE:
        return MessageRefusedError(f"Slack says {code}: it does not take this message")
    return TransportError(f"Slack says {code}")


SLACK_APP = SlackApp()
