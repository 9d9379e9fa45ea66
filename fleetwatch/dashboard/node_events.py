"""What happened on a node: what its driver said, and when its job sources stopped answering."""

from dataclasses import dataclass

from fleetwatch.inventory.models import Node
from fleetwatch.jobs.selectors import SourceOutage, source_outages
from fleetwatch.telemetry.models import HealthEvent


@dataclass(frozen=True, slots=True)
class SourceEvent:
    """A job source stopped answering, or answers again: shown like a HealthEvent."""

    at_ms: int
    kind: str
    text: str
    code: None = None
    gpu: None = None


def newest(node: Node, *, limit: int) -> list[HealthEvent | SourceEvent]:
    """The node's newest events, the latest first."""
    events: list[HealthEvent | SourceEvent] = []
    events += HealthEvent.objects.filter(node=node).select_related("gpu").order_by("-at_ms")[:limit]
    events += [event for outage in source_outages(node.pk, limit=limit) for event in _of(outage)]
    return sorted(events, key=lambda event: -event.at_ms)[:limit]


def _of(outage: SourceOutage) -> list[SourceEvent]:
    stopped = SourceEvent(
        outage.start_ms, "source_silent", f"{outage.kind}: {outage.why or 'it does not say why'}"
    )
    if outage.answered_ms is None:
        return [stopped]
    return [stopped, SourceEvent(outage.answered_ms, "source_answers", outage.kind)]
