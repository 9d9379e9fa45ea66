"""What goes by age: sealed columns and day matrices older than FLEETWATCH_RAW_RETENTION_DAYS."""

from datetime import datetime, timedelta

from django.conf import settings

from fleetwatch.lib.intervals import floor_hour
from fleetwatch.telemetry.models import Chunk, DayMatrix

MAX_CHUNKS_PER_RUN = 50_000
# The oldest hour that still changes is judged with what was before it: columns stay longer than hours change.
CONTEXT = timedelta(days=1)


def horizon(now: datetime) -> datetime:
    """Hours that start before this are final: what arrives for them is counted, and not used."""
    return floor_hour(now) - timedelta(days=settings.RAW_RETENTION_DAYS)


def columns_since(now: datetime) -> datetime:
    """Columns of hours from here on are kept."""
    return horizon(now) - CONTEXT


def apply(now: datetime) -> dict[str, int]:
    """How many chunks and day matrices were deleted; at most MAX_CHUNKS_PER_RUN chunks a run, oldest first."""
    oldest = Chunk.objects.filter(start__lt=columns_since(now)).order_by("start").values("pk")[:MAX_CHUNKS_PER_RUN]
    chunks, _ = Chunk.objects.filter(pk__in=list(oldest.values_list("pk", flat=True))).delete()
    matrices, _ = DayMatrix.objects.filter(day__lt=horizon(now).date()).delete()
    return {"chunks": chunks, "day_matrices": matrices}
