"""Channels and messages with every field defaulted."""

from datetime import UTC, datetime

from fleetwatch.notify import delivering, services
from fleetwatch.notify.message import Message
from fleetwatch.notify.models import Channel
from fleetwatch.notify.services import Recipient
from fleetwatch.notify.transports.base import Envelope
from tests.notify.fake_slack_api import TOKEN

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def message(**changes) -> Message:
    facts = {
        "title": "idle · node-014 GPU 3, 4",
        "summary": "2 GPUs idle since 09:10 (3 h 20 m)",
        "fields": (("Owner", "ana (nlp)"), ("So far", "$21.60")),
        "rows": (("GPU", "util"), ("3", "0 %"), ("4", "1 %")),
        "url": "http://fleet.example/jobs/1",
        "severity": "warning",
        "text": "Fix: scancel 48213",
    }
    return Message(**(facts | changes))


def slack_channel(url: str, *, name: str = "ops", **changes) -> Channel:
    return services.create_channel("slack", name, {"webhook_url": url}, now=NOON, **changes)


def app_config(url: str, /, **changes) -> dict[str, str]:
    facts = {
        "bot_token": TOKEN,
        "channel": "#gpu-alerts",
        "signing_secret": "8f742231b10e8888abcd99yyyzzz85a5",
        "api_url": url,
    }
    return facts | changes


def app_channel(url: str, /, *, name: str = "app", **changes) -> Channel:
    return services.create_channel("slack_app", name, app_config(url, **changes), now=NOON)


def smtp_config(port: int, /, **changes) -> dict[str, str]:
    facts = {
        "host": "127.0.0.1",
        "port": str(port),
        "security": "none",
        "sender": "fleet@example.com",
        "recipients": "ana@example.com",
    }
    return facts | changes


def email_channel(port: int, /, *, name: str = "mail", **changes) -> Channel:
    return services.create_channel("email", name, smtp_config(port, **changes), now=NOON)


def envelope(**changes) -> Envelope:
    facts = {"message": message(), "identity": "1", "thread": "incident/7"}
    return Envelope(**(facts | changes))


def queue(
    *to: Channel | Recipient, key: str = "k", thread: str = "", now: datetime = NOON, **changes
) -> int:
    """What is newly queued of a message with these changes."""
    recipients = [each if isinstance(each, Recipient) else Recipient(each) for each in to]
    return services.enqueue(recipients, message(**changes), key=key, thread=thread, now=now)


def deliver(now: datetime = NOON, limit: int = 20, **changes) -> dict[str, int]:
    """What became of what was due: no second passes while it is sent."""
    return delivering.deliver_due(
        now, limit, **({"clock": lambda: 0.0, "dice": lambda: 0.5} | changes)
    )
