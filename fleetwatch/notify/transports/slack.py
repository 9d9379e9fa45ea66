"""Slack incoming webhooks.
https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks/

Mattermost's and Rocket.Chat's webhooks take the same. Nobody answers a click of theirs: each button
leads to a page. What the statuses mean:
https://docs.slack.dev/changelog/2016-05-17-changes-to-errors-for-incoming-webhooks
"""

from collections.abc import Mapping

from fleetwatch.notify.transports.base import (
    Config,
    ConfigField,
    Envelope,
    Receipt,
    checked,
    host_of,
    url_check,
)
from fleetwatch.notify.transports.posting import TIMEOUT_S, Service
from fleetwatch.notify.transports.slack_blocks import payload, url_buttons


class Slack:
    """Posts to one channel of one workspace: the address is the secret."""

    kind = "slack"
    label = "Slack"
    needs = "An incoming webhook’s address: the quick way, into one channel; no buttons act."
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
        return checked(self.fields, config, url_check("webhook_url", "The webhook address"))

    def describe(self, config: Mapping[str, str]) -> str:
        return host_of(config["webhook_url"])

    def send(
        self, config: Mapping[str, str], envelope: Envelope, *, allow_private: bool
    ) -> Receipt:
        service = Service("Slack", allow_private, TIMEOUT_S)
        content = payload(envelope.message, url_buttons(envelope.message))
        return Receipt(service.accepted(service.post(config["webhook_url"], content)))


SLACK = Slack()
