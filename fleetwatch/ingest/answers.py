"""What the door says to a batch that is stored."""

from collections.abc import Mapping, Sequence
from typing import Any

from fleetwatch.ingest.pressure import pressure


def accepted(
    *,
    stored: int,
    duplicate: int,
    orders: Sequence[Mapping[str, Any]],
    refused: Mapping[str, str] | None = None,
) -> dict[str, object]:
    """The body of a 200: committed, the agent may forget the batch.

    `orders`: what the agent is asked to do. `refused`: UUID -> why windows of that GPU do not count
    (yet).
    """
    answer: dict[str, object] = {
        "stored": stored,
        "duplicate": duplicate,
        "next_flush_s": pressure.next_flush_s,
        "actions": orders,
    }
    if refused:
        answer["refused"] = [{"gpu": uuid, "why": why} for uuid, why in sorted(refused.items())]
    return answer
