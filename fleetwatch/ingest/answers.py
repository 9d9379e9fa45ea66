"""What the door says to a batch that is stored."""

from fleetwatch.ingest.pressure import pressure


def accepted(*, stored: int, duplicate: int) -> dict[str, object]:
    """The body of a 200: committed, the agent may forget the batch."""
    return {"stored": stored, "duplicate": duplicate, "next_flush_s": pressure.next_flush_s, "actions": []}
