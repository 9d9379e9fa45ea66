"""Sums of days of causes: what a month of findings is read from. Never read where a day's causes changed since."""

from datetime import UTC, datetime
from pathlib import Path

from django.db import connection

from fleetwatch.lib.sql import read_statement

_SUM = read_statement(Path(__file__).parent / "sql" / "sum_cause_days.sql")


def sum_days(now: datetime, limit: int) -> int:
    """How many UTC days of nodes were summed, at most `limit`: those that are over. Safe twice; fenced with diagnose()."""
    with connection.cursor() as cursor:
        cursor.execute(_SUM, {"today": now.astimezone(UTC).date(), "limit": limit})
        return int(cursor.rowcount)
