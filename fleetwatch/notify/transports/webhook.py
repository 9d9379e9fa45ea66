"""Signed JSON to an address of one's own: programs read what people are told.

Signed as https://www.standardwebhooks.com has it, so that its libraries verify it: HMAC-SHA256 over
"<webhook-id>.<webhook-timestamp>.<body>". What is read of a request is in docs/notifications.md.
"""

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from fleetwatch.notify.transports.base import (
    Config,
    ConfigField,
    Envelope,
    Receipt,
    checked,
    host_of,
    url_check,
)
from fleetwatch.notify.transports.posting import Service

VERSION = 1  # of the body: a field that is added keeps it, one that goes or changes does not
PREFIX = "whsec_"
SECRET_BYTES = range(24, 65)  # as the specification wants


class Webhook:
    """Posts to one address."""

    kind = "webhook"
    label = "Webhook"
    needs = "An address that takes signed JSON by POST, and a secret to sign it with."
    can_edit = False
    person_by = ""
    fields: tuple[ConfigField, ...] = (
        ConfigField("url", "Address", help="Gets signed JSON by POST.", is_secret=True),
        ConfigField(
            "secret",
            "Signing secret",
            help="24 to 64 bytes as base64, e.g. of openssl rand -base64 32; whsec_… works too.",
            is_secret=True,
        ),
    )

    def validate(self, config: Mapping[str, str]) -> Config:
        return checked(self.fields, config, url_check("url", "The address"), _secret_error)

    def describe(self, config: Mapping[str, str]) -> str:
        return host_of(config["url"])

    def send(
        self, config: Mapping[str, str], envelope: Envelope, *, allow_private: bool
    ) -> Receipt:
        body = msgspec.json.encode(content(envelope))
        headers = signed(body, config["secret"], identity=envelope.identity, at_s=int(time.time()))
        service = Service("the webhook", allow_private)
        return Receipt(service.accepted(service.post(config["url"], body, headers=headers)))


def _secret_error(values: Config) -> dict[str, str]:
    if not values["secret"] or len(_key(values["secret"])) in SECRET_BYTES:
        return {}
    return {"secret": "Signing secret must be 24 to 64 bytes as base64"}


def content(envelope: Envelope) -> dict[str, Any]:
    """The request's JSON object: the same for every try."""
    message = envelope.message
    return {
        "version": VERSION,
        "id": envelope.identity,
        "thread": envelope.thread,
        "status": message.status or None,
        "severity": message.severity,
        "is_reply": message.is_reply,
        "title": message.title,
        "summary": message.summary,
        "text": message.text,
        "url": message.url or None,
        "since_ms": message.since_ms,
        "labels": dict(message.labels),
        "fields": [{"label": label, "value": value} for label, value in message.fields],
        "rows": message.rows,
    }


def signed(body: bytes, secret: str, *, identity: str, at_s: int) -> dict[str, str]:
    """The headers by which the body is known as ours; each try has a time of its own."""
    text = f"{identity}.{at_s}.".encode() + body
    digest = hmac.new(_key(secret), text, hashlib.sha256).digest()
    return {
        "webhook-id": identity,
        "webhook-timestamp": str(at_s),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


def _key(secret: str) -> bytes:
    """The secret's bytes; none where it is no base64."""
    try:
        return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return b""


WEBHOOK = Webhook()
