"""What drivers said of a node's GPUs, in the words of its page and of its finding."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fleetwatch.dashboard.agent_history import with_kinds
from fleetwatch.telemetry.models import HealthEvent


@dataclass(frozen=True, slots=True)
class HostEvent:
    """The machine or its agent started, or a driver or a job source stopped answering or answers
    again: shown like a HealthEvent.
    """

    at_ms: int
    kind: str
    text: str
    code: None = None
    gpu: None = None


def driver_log(newest: Iterable[HealthEvent]) -> list[HealthEvent | HostEvent]:
    """These events of one node, the newest first. What its driver says of the whole node mends no
    GPU: which are lost then still is said beside it.
    """
    events = with_kinds(newest)
    still_lost: set[int | None] = set()
    shown: list[HealthEvent | HostEvent] = []
    for event, kind in reversed(events):
        if event.gpu is not None and event.kind == "gpu_lost":
            still_lost.add(event.gpu.index)
        if event.gpu is not None and event.kind == "gpu_ok":
            still_lost.discard(event.gpu.index)
        shown.append(_shown(event, kind, sorted(still_lost, key=str)))
    return shown[::-1]


def _shown(event: HealthEvent, kind: str, lost: Sequence[int | None]) -> HealthEvent | HostEvent:
    if event.kind != "driver_ok":
        return event
    text = event.text if kind == event.kind else ""
    if lost:
        numbers = ", ".join("?" if index is None else str(index) for index in lost)
        text = f"GPU{'s'[: len(lost) - 1]} {numbers} still lost"
    return HostEvent(event.at_ms, kind, text)
