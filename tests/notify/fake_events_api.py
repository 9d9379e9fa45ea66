"""PagerDuty's Events API v2 as its reference and schema describe it; nothing of it is the real one.

https://developer.pagerduty.com/docs/events-api-v2/overview/ and
https://github.com/PagerDuty/api-schema/blob/main/reference/events-v2/openapiv3.json
"""

import json
from dataclasses import dataclass, field
from typing import Any

from tests.notify.post_server import Answer, PostServer, Request

KEY = "e93facc04764012d7bfb002500d5d1a6"  # the schema's example
MAX_BYTES = 512 * 1024
SEVERITIES = {"critical", "warning", "error", "info"}


@dataclass
class FakeEventsAPI:
    """One service: its alerts' states by key, its changes, whom it paged."""

    alerts: dict[str, str] = field(default_factory=dict)
    changes: list[dict[str, Any]] = field(default_factory=list)
    pages: list[str] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.server = PostServer(self.judge)

    def judge(self, request: Request) -> Answer:
        if len(request.body) > MAX_BYTES:
            return 413, {}, ""
        event = json.loads(request.body)
        self.events.append(event)
        errors = self.errors(request.path, event)
        if errors:
            return refusal(*errors)
        if request.path == "/v2/change/enqueue":
            self.changes.append(event["payload"])
            return accepted(None)
        key = event["dedup_key"]
        self.turn(key, event["event_action"])
        return accepted(key)

    def errors(self, path: str, event: dict[str, Any]) -> list[str]:
        key = event.get("routing_key", "")
        if len(key) != 32:
            return ["Length of 'routing_key' is incorrect (should be 32 characters)"]
        if key != KEY:
            return ["Invalid routing key"]
        is_change = path == "/v2/change/enqueue"
        action = event.get("event_action")
        if not is_change and action not in ("trigger", "acknowledge", "resolve"):
            return ["'event_action' is invalid"]
        if len(event.get("dedup_key", "")) > 255:
            return ["Length of 'dedup_key' is incorrect (should be between 1 and 255 characters)"]
        if is_change or action == "trigger":
            return payload_errors(event.get("payload", {}), is_change=is_change)
        return [] if event.get("dedup_key") else ["'dedup_key' is missing or blank"]

    def turn(self, key: str, action: str) -> None:
        """Only a trigger opens an alert; of an open one it adds to it and pages nobody again."""
        state = self.alerts.get(key)
        is_open = state in ("triggered", "acknowledged")
        if action == "trigger" and not is_open:
            self.alerts[key] = "triggered"
            self.pages.append(key)
        elif action != "trigger" and is_open:
            self.alerts[key] = "acknowledged" if action == "acknowledge" else "resolved"


def payload_errors(payload: dict[str, Any], *, is_change: bool) -> list[str]:
    errors = []
    if not 0 < len(payload.get("summary", "")) <= 1024:
        errors.append("'payload.summary' is missing or blank")
    if not payload.get("source"):
        errors.append("'payload.source' is missing or blank")
    if not is_change and payload.get("severity") not in SEVERITIES:
        errors.append("'payload.severity' is invalid (must be one of the following: ...)")
    return errors


def accepted(key: str | None) -> Answer:
    said = {"status": "success", "message": "Event processed"}
    return 202, {}, json.dumps(said | ({"dedup_key": key} if key else {}))


def refusal(*errors: str) -> Answer:
    said = {"status": "invalid event", "message": "Event object is invalid", "errors": errors}
    return 400, {}, json.dumps(said)
