"""Reads of telemetry other than whole frames: events, boots."""

from fleetwatch.telemetry.models import HealthEvent, ReceivedSequence


def events(node_id: int, until_ms: int) -> list[HealthEvent]:
    """The node's health events before `until_ms`, oldest first."""
    return list(HealthEvent.objects.filter(node_id=node_id, at_ms__lt=until_ms).order_by("at_ms", "pk"))


def boots(node_id: int) -> list[int]:
    """When the node booted, in milliseconds corrected for its clock, ascending.

    A node that lost its spool has several boot ids for one start; the start is there once.
    """
    rows = ReceivedSequence.objects.filter(node_id=node_id).values_list("boot_start_ms", "clock_offset_ms")
    return sorted({start + offset for start, offset in rows})
