"""Older days of a large fleet's ledger, made from one that was really posted: other GPUs of the same model, other jobs, other people.

Posting is what makes a ledger; for a month of ten thousand GPUs it would take hours. A tiled day conserves time as the
posted one does, and has no windows: nothing may be posted in it again.
"""

import itertools
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.db import connection, transaction
from django.db.models.functions import Least

from fleetwatch.inventory.models import GPU
from fleetwatch.ledger.models import Entry, NodeDay, Posted
from fleetwatch.lib.intervals import Interval, to_ms
from fleetwatch.lib.sql import read_statement

DAY = timedelta(days=1)
NODES_ON = 3  # nodes that the day's story moves on for each day back
USERS_ON = 17

_SQL = Path(__file__).parent / "sql"
_JOBS, _ALLOCATIONS, _ENTRIES, _RUNS = (read_statement(_SQL / f"tile_{name}.sql") for name in ("jobs", "allocations", "entries", "runs"))


def tile(posted_day: Interval, days: int) -> Iterator[tuple[datetime, int]]:
    """(start, entries) of each of so many days before the posted one (from a UTC midnight), newest first; one that has entries stays."""
    for shift in range(1, days + 1):
        yield posted_day.start - shift * DAY, _tile_day(posted_day, shift)


@transaction.atomic
def _tile_day(source: Interval, shift: int) -> int:
    start = source.start - shift * DAY
    if Entry.objects.filter(start__gte=start, start__lt=start + DAY).exists():
        return 0
    gpus, others = _moved(shift)
    values: dict[str, Any] = {
        "source_start": source.start,
        "source_end": source.end,
        "source_start_ms": source.start_ms,
        "source_end_ms": source.end_ms,
        "shift_days": shift,
        "step": shift * USERS_ON,
        "gpus": gpus,
        "other_gpus": others,
    }
    with connection.cursor() as cursor:
        cursor.execute(_JOBS, values)
        cursor.execute(_ALLOCATIONS, values)
        cursor.execute(_RUNS, values)
        cursor.execute(_ENTRIES, values)
        written = int(cursor.rowcount)
    _take_for_granted(start)
    return written


def _moved(shift: int) -> tuple[list[int], list[int]]:
    """GPU ids, and which GPU of the same model and place in its node stands in for each."""
    rows = GPU.objects.filter(parent=None, first_ms__isnull=False).order_by("model_name", "index", "node__name")
    gpus: list[int] = []
    others: list[int] = []
    for _, group in itertools.groupby(rows.values_list("model_name", "index", "pk"), key=lambda row: row[:2]):
        ids = [pk for _, _, pk in group]
        turn = shift * NODES_ON % len(ids)
        gpus += ids
        others += ids[turn:] + ids[:turn]
    return gpus, others


def _take_for_granted(start: datetime) -> None:
    """The GPUs were capacity then, and posting has nothing to say of it any more."""
    start_ms = to_ms(start)
    gpus = GPU.objects.filter(first_ms__isnull=False)
    gpus.update(first_ms=Least("first_ms", start_ms))
    Posted.objects.update(start_ms=Least("start_ms", start_ms))
    node_ids = gpus.order_by().values_list("node_id", flat=True).distinct()
    NodeDay.objects.bulk_create(
        [NodeDay(node_id=node_id, day=start.date(), versions=[1] * 24) for node_id in node_ids], ignore_conflicts=True
    )
