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
    _forget_other_groups()
    waiting = DiagnosedDay.objects.filter(is_summed=False, day__lt=now.astimezone(UTC).date()).order_by("-day", "node_id")
    # locked in a statement of its own: the next one then sees what was committed before the lock was had
    ids = list(waiting.select_for_update(skip_locked=True).values_list("pk", flat=True)[:limit])
    with connection.cursor() as cursor:
        cursor.execute(_SUM, {"ids": ids})
        return int(cursor.rowcount)


def _forget_other_groups() -> None:
    """Days whose node has other GPUs of one price now than when they were summed are to be summed again."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE diagnosis_diagnosedday AS diagnosed SET is_summed = FALSE"
            " FROM (SELECT DISTINCT node_id, digest FROM costs_alike) AS alike"
            " WHERE alike.node_id = diagnosed.node_id AND diagnosed.is_summed AND diagnosed.alike <> alike.digest"
        )
