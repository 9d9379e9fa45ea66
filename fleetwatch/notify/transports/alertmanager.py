"""Prometheus' Alertmanager, API v2, as a client: it groups, silences and routes our incidents.
https://prometheus.io/docs/alerting/latest/clients/ and
https://github.com/prometheus/alertmanager/blob/main/api/v2/openapi.yaml

An alert is its labels: the first message of a thread says them, later ones repeat them whatever has
changed. It ends when nobody repeats it; so what fires is repeated, and ends by its endsAt.
"""

import re
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from fleetwatch.lib import outbound
from fleetwatch.notify.message import Message, one_line
from fleetwatch.notify.transports.base import (
    Config,
    ConfigField,
    Envelope,
    Receipt,
    checked,
    url_check,
)
from fleetwatch.notify.transports.posting import Service

REPEAT_S = (
    240.0  # before resolve_timeout, 5 min where nobody set it, and soon after a restart there
)
LASTS_S = 3600.0  # without us: what fires outlives our own restarts and short outages
REPORT_LASTS_S = 300.0  # what is about no incident
NAME = re.compile(r"[^a-zA-Z0-9_]")
USUAL = {"rule": "alertname"}  # as Prometheus calls it


class Standing(msgspec.Struct, frozen=True):
    """What an alert is known by there, and when it began."""

    labels: dict[str, str]
    starts_s: float


class Alertmanager:
    """Posts to one Alertmanager; of a cluster each is a channel."""

    kind = "alertmanager"
    label = "Alertmanager"
    needs = "Its address; incidents are alerts there, grouped and silenced as its own."
    can_edit = True
    person_by = ""
    fields: tuple[ConfigField, ...] = (
        ConfigField("url", "Address", help="http://alertmanager:9093, with its path prefix."),
    )

    def validate(self, config: Mapping[str, str]) -> Config:
        return checked(self.fields, config, url_check("url", "The address"))

    def describe(self, config: Mapping[str, str]) -> str:
        return outbound.check_url(config["url"]).netloc

    def send(
        self, config: Mapping[str, str], envelope: Envelope, *, allow_private: bool
    ) -> Receipt:
        now_s = time.time()
        standing = _standing(envelope, now_s)
        service = Service("Alertmanager", allow_private)
        answer = service.post(
            f"{config['url'].rstrip('/')}/api/v2/alerts",
            [alert(envelope.message, standing, now_s=now_s)],
        )
        return Receipt(
            service.accepted(answer),
            remote_id=msgspec.json.encode(standing).decode(),
            repeat_after_s=REPEAT_S if _goes_on(envelope.message) else None,
        )


def alert(message: Message, standing: Standing, *, now_s: float) -> dict[str, Any]:
    """The alert's JSON object."""
    lasts_s = LASTS_S if _goes_on(message) else 0.0 if message.status else REPORT_LASTS_S
    page = {"generatorURL": message.url} if message.url else {}
    return {
        "labels": standing.labels,
        "annotations": _annotations(message),
        "startsAt": _iso(min(standing.starts_s, now_s)),  # refused where it is after the end
        "endsAt": _iso(now_s + lasts_s),
        **page,
    }


def label_names(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The labels by names that Prometheus has (letters, digits, _); of two that become the same the
    first.
    """
    labels: dict[str, str] = {}
    for name, value in pairs:
        plain = NAME.sub("_", USUAL.get(name, name))
        if value.strip():
            labels.setdefault(f"_{plain}" if plain[:1].isdigit() else plain, value)
    return labels


def _standing(envelope: Envelope, now_s: float) -> Standing:
    if envelope.remote_id:
        return msgspec.json.decode(envelope.remote_id, type=Standing)
    message = envelope.message
    usual = [("thread", envelope.thread), *message.labels, ("alertname", "FleetWatch")]
    starts_s = now_s if message.since_ms is None else message.since_ms / 1000
    return Standing(label_names([*usual, ("severity", message.severity)]), starts_s)


def _goes_on(message: Message) -> bool:
    return message.status in ("firing", "acknowledged")


def _annotations(message: Message) -> dict[str, str]:
    lines = [message.text, *(f"{label}: {one_line(value)}" for label, value in message.fields)]
    texts = {
        "title": one_line(message.title),
        "summary": one_line(message.summary),
        "description": "\n".join(filter(None, lines)),
    }
    return {name: text for name, text in texts.items() if text}


def _iso(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds")


ALERTMANAGER = Alertmanager()
