"""What the door says to a batch that is stored."""

from collections.abc import Mapping

from fleetwatch.ingest.pressure import pressure


def accepted(
    *, stored: int, duplicate: int, refused: Mapping[str, str] | None = None
) -> dict[str, object]:
    """The body of a 200: committed, the agent may forget the batch.

    `refused`: UUID -> why windows of that GPU do not count (yet).
    """
    answer: dict[str, object] = {
        "stored": stored,
        "duplicate": duplicate,
        "next_flush_s": pressure.next_flush_s,
        "actions": [],
    }
    if refused:
        answer["refused"] = [{"gpu": uuid, "why": why} for uuid, why in sorted(refused.items())]
    return answer
