"""Channels and messages with every field defaulted."""

from datetime import UTC, datetime

from fleetwatch.notify import services
from fleetwatch.notify.message import Message
from fleetwatch.notify.models import Channel

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
