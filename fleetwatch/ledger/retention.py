"""What goes by age: entries and runs older than FLEETWATCH_LEDGER_RETENTION_DAYS."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from fleetwatch.ledger import hour_cells, hour_rows
from fleetwatch.ledger.models import Adjustment, Entry, HourRuns, NodeDay, StateDay
from fleetwatch.lib.intervals import DAY_MS, HOUR_MS, floor_hour, from_ms, to_ms
from fleetwatch.telemetry import retention as columns

# Deleted a day at a time, so that one run holds no lock for long: a hub that was down for months
# catches up in some runs.
MAX_DAYS_PER_RUN = 31
DAY = timedelta(days=1)


def horizon(now: datetime) -> datetime:
    """The ledger holds the hours from here on."""
    return floor_hour(now) - timedelta(days=settings.LEDGER_RETENTION_DAYS)


def apply(now: datetime) -> dict[str, int]:
    """How many entries, rows of runs and adjustments were deleted, the oldest days first.

    An adjustment is a line of the month in which it was booked: it goes with that month's entries.
    """
    did = {"entries": 0, "runs": 0, "hour_cells": hour_cells.forget(columns.horizon(now))}
    did["adjustments"] = Adjustment.objects.filter(
        booked_at__lt=horizon(now), start__lt=horizon(now)
    ).delete()[0]
    for _ in range(MAX_DAYS_PER_RUN):
        oldest = (
            Entry.objects.filter(start__lt=horizon(now))
            .order_by("start")
            .values_list("start", flat=True)
            .first()
        )
        if oldest is None:
            break
        end = min(oldest + DAY, horizon(now))
        did["entries"] += _forget_entries(end)
        did["runs"] += HourRuns.objects.filter(cut_ms__lte=to_ms(end) - HOUR_MS).delete()[0]
    return did


@transaction.atomic
def _forget_entries(end: datetime) -> int:
    """How many entries were deleted; sums of the day that goes in part are told to be old."""
    midnight_ms = to_ms(end) // DAY_MS * DAY_MS
    partly = Entry.objects.filter(start__gte=from_ms(midnight_ms), start__lt=end)
    for node_id in partly.order_by("node_id").values_list("node_id", flat=True).distinct():
        hour_rows.count_versions({node_id: range(midnight_ms, to_ms(end), HOUR_MS)})
    NodeDay.objects.filter(day__lt=from_ms(midnight_ms).date()).delete()
    StateDay.objects.filter(day__lt=from_ms(midnight_ms).date()).delete()
    return Entry.objects.filter(start__lt=end).delete()[0]
