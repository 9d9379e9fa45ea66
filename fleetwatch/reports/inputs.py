"""What a month's reports are made of, as one digest: versions of the ledger's hours, rates, GPUs, jobs and their teams."""

import hashlib
from pathlib import Path

from django.db import connection

from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.sql import read_statement

# part of the digest: a change of what a report says is a new version of it
FORMAT = 2

_INPUTS = read_statement(Path(__file__).parent / "sql" / "inputs.sql")


def digest(*intervals: Interval) -> str:
    """64 hex digits; the same ones mean that all figures over the intervals are still the same."""
    found = [f"{FORMAT} {interval.start} {interval.end} {_of(interval)}" for interval in intervals]
    return hashlib.sha256("\n".join(found).encode()).hexdigest()


def _of(interval: Interval) -> str:
    with connection.cursor() as cursor:
        cursor.execute(_INPUTS, {"start": interval.start, "end": interval.end})
        return str(cursor.fetchone()[0])
