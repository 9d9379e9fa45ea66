"""Sums of days of causes: what a month of findings is read from. Never read where a day's causes changed since."""

from datetime import UTC, datetime
from pathlib import Path

from django.db import connection, transaction

from fleetwatch.diagnosis.models import DiagnosedDay
from fleetwatch.lib.sql import read_statement

_SUM = read_statement(Path(__file__).parent / "sql" / "sum_cause_days.sql")


@transaction.atomic
def sum_days(now: datetime, limit: int) -> int:
    """How many UTC days of nodes were summed, at most `limit`: those that are over, the newest first. Safe twice and beside diagnose()."""
    waiting = DiagnosedDay.objects.filter(is_summed=False, day__lt=now.astimezone(UTC).date()).order_by("-day", "node_id")
    # locked in a statement of its own: the next one then sees what was committed before the lock was had
    ids = list(waiting.select_for_update(skip_locked=True).values_list("pk", flat=True)[:limit])
    with connection.cursor() as cursor:
        cursor.execute(_SUM, {"ids": ids})
        return int(cursor.rowcount)
