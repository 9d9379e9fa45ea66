"""Reads of alerts."""

from dataclasses import dataclass

from django.db.models import QuerySet

from fleetwatch.alerts.conditions import Condition, condition
from fleetwatch.alerts.idle_job import Facts
from fleetwatch.alerts.messages import places
from fleetwatch.alerts.models import Incident, Rule


@dataclass(frozen=True, slots=True)
class IncidentView:
    """An incident as pages show it.

    `facts` carries owner, GPUs, since_ms, cost_usd, usd_per_hour, memory_bytes.
    """

    incident: Incident
    facts: Facts
    where: str


def open_incidents() -> list[IncidentView]:
    """What is wrong now, newest first."""
    return _views(Incident.objects.filter(resolved_at=None))


def latest_incidents(limit: int, *, job_key: str | None = None) -> list[IncidentView]:
    """The newest incidents, open or not, of all jobs or of one."""
    rows = Incident.objects.all() if job_key is None else Incident.objects.filter(subject=job_key)
    return _views(rows, limit)


def rules() -> list[tuple[Rule, Condition]]:
    """Every rule with the condition it watches (its label, unit and bounds)."""
    return [
        (rule, condition(rule.condition))
        for rule in Rule.objects.prefetch_related("channels").order_by("pk")
    ]


def _views(rows: QuerySet[Incident], limit: int | None = None) -> list[IncidentView]:
    newest = rows.select_related("rule").order_by("-opened_at", "-pk")[:limit]
    return [
        IncidentView(incident, facts, places(facts))
        for incident in newest
        for facts in [Facts.from_json(incident.facts)]
    ]
