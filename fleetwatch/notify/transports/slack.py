"""Slack incoming webhooks.
https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks/

Mattermost's and Rocket.Chat's webhooks take the same. Nobody answers a click of theirs: each button
leads to a page.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

from fleetwatch.lib import outbound
from fleetwatch.notify.message import one_line
from fleetwatch.notify.transports.base import (
    Config,
    ConfigError,
    ConfigField,
    Envelope,
    MessageRefusedError,
    Receipt,
    TransportError,
    reaching,
    required,
    retry_after_s,
)
from fleetwatch.notify.transports.slack_blocks import payload, url_buttons

TIMEOUT_S = 10
# The webhook or its channel is gone, or may not be used:
# https://docs.slack.dev/changelog/2016-05-17-changes-to-errors-for-incoming-webhooks
GONE = frozenset({301, 302, 303, 307, 308, 401, 403, 404, 405, 410})
REFUSED = frozenset({400, 413})  # invalid_payload and the like: this message, not this channel


class Slack:
    """Posts to one channel of one workspace: the address is the secret."""

    kind = "slack"
    label = "Slack"
    can_edit = False
    person_by = ""
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
        self, config: Mapping[str, str], envelope: Envelope, *, allow_private: bool
    ) -> Receipt:
        with reaching():
            answer = outbound.post(
                config["webhook_url"],
                json=payload(envelope.message, url_buttons(envelope.message)),
                timeout_s=TIMEOUT_S,
                allow_private=allow_private,
            )
        reply = f"{answer.status} {one_line(answer.text, 100)}".strip()
        if 200 <= answer.status < 300:
            return Receipt(reply)
        if answer.status in GONE:
            raise TransportError(
                f"Slack says {reply}: the webhook is gone or not allowed; make a new one",
                permanent=True,
            )
        if answer.status in REFUSED:
            raise MessageRefusedError(f"Slack says {reply}: it does not take this message")
        raise TransportError(f"Slack says {reply}", retry_after_s=retry_after_s(answer.headers))


SLACK = Slack()
