"""Reads of alerts."""

from dataclasses import dataclass

from fleetwatch.alerts.breach import Breach, Condition, stored_breach
from fleetwatch.alerts.conditions import condition
from fleetwatch.alerts.models import Incident, Rule


@dataclass(frozen=True, slots=True)
class IncidentView:
    """An incident as pages show it, with what was true when it was looked at last."""

    incident: Incident
    breach: Breach


def open_incidents() -> list[IncidentView]:
    """What is wrong now, newest first."""
    rows = Incident.objects.filter(
        state__in=(Incident.State.FIRING, Incident.State.ACKNOWLEDGED)
    ).select_related("rule")
    return [view_of(incident) for incident in rows.order_by("-opened_at", "-pk")]


def view_of(incident: Incident) -> IncidentView:
    """The incident with its breach."""
    return IncidentView(incident, stored_breach(incident.facts))


def rules() -> list[tuple[Rule, Condition]]:
    """Every rule with the condition it watches (its label, unit and bounds)."""
    by_name = Rule.objects.prefetch_related("channels").order_by("name")
    return [(rule, condition(rule.condition)) for rule in by_name]
