"""What frees room on the database's disk, run at once where room is short, and before anything
else.

Nothing goes before its time: batches once they are sealed, the rest by the age that retention gives
it.
"""

from collections.abc import Callable
from datetime import datetime

from fleetwatch.diagnosis import retention as causes
from fleetwatch.ledger import retention as ledger
from fleetwatch.notify import delivering
from fleetwatch.operations import disk
from fleetwatch.operations import services as operations
from fleetwatch.telemetry import partitions
from fleetwatch.telemetry import retention as columns


def _drop_sealed(now: datetime) -> dict[str, int]:
    return {"partitions": len(partitions.drop_sealed(now))}


# What frees most at once first: a dropped partition's room is there at once, that of deleted rows
# is for new rows.
STEPS: tuple[Callable[[datetime], dict[str, int]], ...] = (
    _drop_sealed,
    columns.apply,
    ledger.apply,
    causes.apply,
    delivering.prune_deliveries,
    operations.prune_runs,
)


def make_room(now: datetime) -> dict[str, int]:
    """What was dropped and deleted; nothing while there is room."""
    did: dict[str, int] = {}
    if not disk.is_short():
        return did
    for step in STEPS:
        for name, count in step(now).items():
            did[name] = did.get(name, 0) + count
    return did
