"""What does not balance in the whole ledger, as `manage.py check_ledger` asks it node by node."""

from datetime import datetime

from fleetwatch.ledger import check


def unbalanced(
    start: datetime, end: datetime, *, now: datetime | None = None
) -> list[check.Imbalance]:
    """Of the clock hours of [start, end), by node and hour."""
    of_nodes = [
        fault for node in check.nodes() for fault in check.unbalanced_of(node, start, end, now=now)
    ]
    return [*of_nodes, *check.spent_twice(start, end), *check.of_another_team(start)]
