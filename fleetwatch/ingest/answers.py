"""What the door says to a batch that is stored."""

NEXT_FLUSH_S = 30


def accepted(*, stored: int, duplicate: int) -> dict[str, object]:
    """The body of a 200: committed, the agent may forget the batch."""
    return {"stored": stored, "duplicate": duplicate, "next_flush_s": NEXT_FLUSH_S, "actions": []}
