"""The closed sets of words in requests and answers: those of the rooms below, as OpenAPI lists
them.
"""

from typing import Annotated, Literal

from pydantic import WithJsonSchema

State = Literal[
    "useful",
    "underused",
    "stalled",
    "idle",
    "starting",
    "orphaned",
    "free",
    "unavailable",
    "unobserved",
]
WastedState = Literal["idle", "stalled", "underused", "orphaned"]
Tier = Literal["", "certain", "probable", "potential"]
JobKind = Literal["batch", "interactive", "service"]
Confidence = Literal["low", "medium", "high"]
FindingConfidence = Literal["", "low", "medium", "high"]
FindingStatus = Literal["open", "accepted", "snoozed", "exempt", "dismissed", "fixed"]
SeriesKind = Literal["fleet", "team", "gpu_model", "node"]
AnomalyMetric = Literal["cost", "wasted"]
Risk = Literal["over", "will pass", "may pass", "partial month", "not known", "within", "no budget"]
ReportKind = Literal["weekly_digest", "team_digest", "person_digest", "statement", "fleet"]
DifferenceKind = Literal["matched", "unmatched", "unbilled", "committed", "booked"]
IncidentState = Literal["pending", "firing", "acknowledged", "resolved"]
NotificationState = Literal["sent", "held", "capped", "digested", "dropped"]
SilenceKind = Literal["silence", "maintenance", "exemption", "justification"]
RouteKind = Literal["team", "operators", "unowned"]
NotificationWay = Literal["any", "slack", "email", "none"]
SilenceState = Literal["active", "pending", "expired"]
ActionKind = Literal["stop_job", "drain_node", "webhook"]
ActionState = Literal[
    "warned",
    "warned_again",
    "ordered",
    "done",
    "refused",
    "unheard",
    "would",
    "kept",
    "ended",
]
Severity = Literal["info", "warning", "critical"]
Verdict = Literal["", "confirmed", "rejected"]
Grouping = Literal["team", "project", "cost_centre", "user", "job", "node", "gpu_model", "cause"]
TrialGrouping = Literal["state", "team", "job"]

# what lib.timeframes reads
Moment = Annotated[
    str,
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "format": "date-time"},
                {"type": "string", "format": "date"},
                {"type": "string", "pattern": "^now([+-][0-9]{1,6}[smhdwM])?(/[hdM])?$"},
                {"type": "string", "pattern": "^[0-9]{12,14}$"},
                {"type": "string", "pattern": "^[\\s\\x1c-\\x1f\\x85]*$"},
            ],
            "description": (
                "ISO 8601 (UTC where no zone is named), now, now-7d, now/M, or milliseconds since"
                " the epoch; empty: not said"
            ),
        }
    ),
]
