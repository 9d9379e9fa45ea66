"""What `check_ledger` recomputes of diagnosis: causes are what the ledger calls wasted, no saving exceeds it, sums are their causes'."""

from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

from django.db import connection

from fleetwatch.diagnosis import sums
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.sql import read_statement

_SQL = Path(__file__).parent / "sql"
_UNEXPLAINED = read_statement(_SQL / "unexplained.sql")


def faults(interval: Interval) -> Iterator[str]:
    """A line for each hour or day that does not balance; hours that wait to be diagnosed are not looked at."""
    with connection.cursor() as cursor:
        cursor.execute(_UNEXPLAINED, {"start": interval.start, "end": interval.end})
        for name, hour, off_ms, saves_too_much in cursor.fetchall():
            if off_ms:
                yield f"causes sum to idle, stalled and underused: {name} at {hour.astimezone(UTC):%Y-%m-%d %H:%M} is {off_ms} ms off"
            if saves_too_much:
                yield f"no saving exceeds what was wasted: {name} at {hour.astimezone(UTC):%Y-%m-%d %H:%M} saves more"
    for name, day, lines in sums.wrong_days(interval):
        yield f"sums of causes are those of their hours: {name} on {day} differs in {lines} lines"
