"""PagerDuty's Events API v2: an incident triggers, is acknowledged and resolves there.
https://developer.pagerduty.com/docs/events-api-v2/overview/ (202, 400, 429 and 5xx) and its schema,
https://github.com/PagerDuty/api-schema/blob/main/reference/events-v2/openapiv3.json

What is about no incident (a report, a test) is a change event, which notifies nobody:
https://developer.pagerduty.com/docs/events-api-v2/send-change-events/
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from fleetwatch.lib import outbound
from fleetwatch.lib.intervals import from_ms
from fleetwatch.notify.message import Message, one_line
from fleetwatch.notify.transports.base import (
    Config,
    ConfigField,
    Envelope,
    Receipt,
    TransportError,
    checked,
    url_check,
)
from fleetwatch.notify.transports.posting import Service

ROUTING_KEY = re.compile(r"[A-Za-z0-9]{32}")
MAX_SUMMARY = 1024
MAX_KEY = 255
MAX_ROWS = 50
ACTIONS = {"firing": "trigger", "acknowledged": "acknowledge", "resolved": "resolve"}
OURS = "FleetWatch"


class PagerDuty:
    """Sends events to one service."""

    kind = "pagerduty"
    label = "PagerDuty"
    needs = "An integration key of a service (Events API v2): incidents page, and resolve there."
    can_edit = True  # of what waits only the last counts: what is over pages nobody
    person_by = ""
    fields: tuple[ConfigField, ...] = (
        ConfigField(
            "routing_key",
            "Integration key",
            help="The service → Integrations → Events API V2: 32 letters and digits.",
            is_secret=True,
        ),
        ConfigField(
            "api_url",
            "Address of the API",
            help="In the EU https://events.eu.pagerduty.com",
            default="https://events.pagerduty.com",
        ),
    )

    def validate(self, config: Mapping[str, str]) -> Config:
        is_url = url_check("api_url", "The address of the API")
        return checked(self.fields, config, _key_error, is_url)

    def describe(self, config: Mapping[str, str]) -> str:
        return f"a service, by {outbound.check_url(config['api_url']).hostname}"

    def send(
        self, config: Mapping[str, str], envelope: Envelope, *, allow_private: bool
    ) -> Receipt:
        message = envelope.message
        event = _event(message, envelope.thread) if message.status else _change(message)
        path = "enqueue" if message.status else "change/enqueue"
        service = Service("PagerDuty", allow_private)
        answer = service.post(
            f"{config['api_url'].rstrip('/')}/v2/{path}",
            event | {"routing_key": config["routing_key"]},
        )
        if answer.status == 400 and re.search("routing.?key", answer.text, re.IGNORECASE):
            raise TransportError(
                f"PagerDuty does not take the integration key: {one_line(answer.text, 100)}",
                permanent=True,
            )
        return Receipt(service.accepted(answer))


def _key_error(values: Config) -> dict[str, str]:
    if not values["routing_key"] or ROUTING_KEY.fullmatch(values["routing_key"]):
        return {}
    return {"routing_key": "An integration key has 32 letters and digits"}


def _event(message: Message, thread: str) -> dict[str, Any]:
    """The incident's event; all of a thread are about one alert there."""
    action = ACTIONS[message.status]
    event: dict[str, Any] = {"event_action": action, "dedup_key": _alert_key(message, thread)}
    if action != "trigger":
        return event
    labels = dict(message.labels)
    about = {"component": "job", "group": "team", "class": "rule"}
    payload = {
        **_base(message, source=labels.get("node", "")),
        "severity": message.severity,
        **{name: labels[label] for name, label in about.items() if label in labels},
    }
    ours = {"client": OURS, "client_url": message.url} if message.url else {"client": OURS}
    return event | ours | {"payload": payload, "links": _links(message)}


def _alert_key(message: Message, thread: str) -> str:
    """The thread at this hub's address: several hubs may send to one service."""
    hub = urlsplit(message.url).hostname or OURS
    return f"{hub}/{thread}"[-MAX_KEY:]


def _change(message: Message) -> dict[str, Any]:
    return {"payload": _base(message, source=""), "links": _links(message)}


def _base(message: Message, *, source: str) -> dict[str, Any]:
    began = {} if message.since_ms is None else {"timestamp": _iso(message.since_ms)}
    return {
        "summary": one_line(message.title, MAX_SUMMARY),
        "source": source or OURS,
        "custom_details": _details(message),
        **began,
    }


def _details(message: Message) -> dict[str, Any]:
    rows = [" | ".join(map(one_line, row)) for row in message.rows[:MAX_ROWS]]
    texts = {"summary": message.summary, "text": message.text, "rows": rows}
    return {name: text for name, text in texts.items() if text} | dict(message.fields)


def _links(message: Message) -> list[dict[str, str]]:
    return [{"href": link.url, "text": one_line(link.label)} for link in message.links]


def _iso(at_ms: int) -> str:
    return from_ms(at_ms).isoformat(timespec="milliseconds")


PAGERDUTY = PagerDuty()
