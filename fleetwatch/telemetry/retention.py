"""What goes by age: sealed columns after FLEETWATCH_RAW_RETENTION_DAYS, day matrices after
FLEETWATCH_MATRIX_RETENTION_DAYS.

Hot batches go with their partitions (partitions.drop_sealed), the ledger by ledger/retention.py.
"""

from datetime import datetime, timedelta

from django.conf import settings

from fleetwatch.lib.intervals import floor_hour
from fleetwatch.telemetry.models import Chunk, DayMatrix

# Deleted in portions, each committed: readers and sealing go on beside it, and a run that is killed
# has done something.
CHUNKS_AT_ONCE = 1_000
MAX_CHUNKS_PER_RUN = 50_000
# The oldest hour that still changes is judged with what was before it: columns stay longer than
# hours change.
CONTEXT = timedelta(days=1)


def horizon(now: datetime) -> datetime:
    """Hours that start before this are final: what arrives for them is counted, and not used."""
    return floor_hour(now) - timedelta(days=settings.RAW_RETENTION_DAYS)


def columns_since(now: datetime) -> datetime:
    """Columns of hours from here on are kept."""
    return horizon(now) - CONTEXT


def apply(now: datetime) -> dict[str, int]:
    """How many chunks and day matrices were deleted; at most MAX_CHUNKS_PER_RUN chunks a run,
    oldest first.

    A chunk goes when all of its time is over; a matrix when its UTC day is.
    """
    chunks = 0
    while chunks < MAX_CHUNKS_PER_RUN:
        oldest = (
            Chunk.objects.filter(end__lte=columns_since(now))
            .order_by("start")
            .values_list("pk", flat=True)[:CHUNKS_AT_ONCE]
        )
        deleted, _ = Chunk.objects.filter(pk__in=list(oldest)).delete()
        chunks += deleted
        if deleted < CHUNKS_AT_ONCE:
            break
    kept_since = floor_hour(now) - timedelta(days=settings.MATRIX_RETENTION_DAYS)
    matrices, _ = DayMatrix.objects.filter(day__lt=kept_since.date()).delete()
    return {"chunks": chunks, "day_matrices": matrices}
