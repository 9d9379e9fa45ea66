"""Older days of a large fleet's ledger, made from one that was really posted: other GPUs of the
same model, other jobs, other people.

Posting is what makes a ledger; for a month of ten thousand GPUs it would take hours. A tiled day
conserves time as the posted one does, and has no windows: nothing may be posted in it again.
"""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.db import connection, transaction
from django.db.models import Min
from django.db.models.functions import Least

from fleetwatch.inventory.models import GPU, Stay
from fleetwatch.ledger.models import Entry, HourRuns, NodeDay, Posted
from fleetwatch.lib.intervals import Interval, to_ms
from fleetwatch.lib.sql import read_statement

DAY = timedelta(days=1)
SQL = Path(__file__).parent / "sql"
NODES_ON = 3  # nodes that the day's story moves on for each day back
USERS_ON = 17

_SOURCE, _JOBS, _ALLOCATIONS, _ENTRIES, _RUNS = (
    read_statement(SQL / f"tile_{name}.sql")
    for name in ("source", "jobs", "allocations", "entries", "runs")
)


def untiled(posted_day: Interval, days: int) -> list[int]:
    """Of so many days before the posted one (from a UTC midnight) those without entries, told by
    how many days back they lie.
    """
    starts = {shift: posted_day.start - shift * DAY for shift in range(1, days + 1)}
    return [
        shift
        for shift, start in starts.items()
        if not Entry.objects.filter(start__gte=start, start__lt=start + DAY).exists()
    ]


@transaction.atomic
def take_for_granted(posted_day: Interval, days: int) -> None:
    """The GPUs were capacity in so many days before the posted one, and posting has nothing to say
    of it any more.
    """
    start_ms = to_ms(posted_day.start - days * DAY)
    GPU.objects.filter(first_ms__isnull=False).update(first_ms=Least("first_ms", start_ms))
    for gpu_id, first_ms in Stay.objects.values_list("gpu_id").annotate(Min("first_ms")):
        Stay.objects.filter(gpu_id=gpu_id, first_ms=first_ms).update(
            first_ms=min(first_ms, start_ms)
        )
    for row in Posted.objects.all():
        row.spans[0][0] = min(row.spans[0][0], start_ms)
        row.save(update_fields=["spans"])


@contextmanager
def without_indexes() -> Iterator[None]:
    """Entries and runs have no index but their key meanwhile: made at the end, all rows at once,
    they cost a third.

    They come back whatever is raised, and with them what the planner knows of the rows, as on a hub
    that filled by and by; only where the process is killed the hub is left without, and is to be
    thrown away.
    """
    with connection.schema_editor() as editor:
        for model in (Entry, HourRuns):
            for index in model._meta.indexes:
                editor.remove_index(model, index)
    try:
        yield
    finally:
        with connection.schema_editor() as editor:
            for model in (Entry, HourRuns):
                for index in model._meta.indexes:
                    editor.add_index(model, index)
                editor.execute(f"ANALYZE {model._meta.db_table}")


def keep(posted_day: Interval) -> None:
    """Puts what the posted day says beside this connection: `tile` reads it from there, on the same
    connection.
    """
    with connection.cursor() as cursor:
        cursor.execute(_SOURCE, _span(posted_day))


@transaction.atomic
def tile(posted_day: Interval, shift: int) -> tuple[datetime, int]:
    """(start, entries) of the day so many days before the posted one, which was kept on this
    connection; only an untiled one.
    """
    start = posted_day.start - shift * DAY
    gpus, others = moved(shift)
    values = _span(posted_day) | {
        "shift_days": shift,
        "step": shift * USERS_ON,
        "gpus": gpus,
        "other_gpus": others,
    }
    with connection.cursor() as cursor:
        for statement in (_JOBS, _ALLOCATIONS, _RUNS, _ENTRIES):
            cursor.execute(statement, values)
        written = int(cursor.rowcount)
    node_ids = (
        GPU.objects.filter(first_ms__isnull=False)
        .order_by()
        .values_list("node_id", flat=True)
        .distinct()
    )
    rows = [NodeDay(node_id=node_id, day=start.date(), versions=[1] * 24) for node_id in node_ids]
    NodeDay.objects.bulk_create(rows, ignore_conflicts=True)
    return start, written


def _span(day: Interval) -> dict[str, Any]:
    return {
        "source_start": day.start,
        "source_end": day.end,
        "source_start_ms": day.start_ms,
        "source_end_ms": day.end_ms,
    }


def moved(shift: int) -> tuple[list[int], list[int]]:
    """GPU ids, and which GPU of the same model and place in its node stands in for each."""
    rows = GPU.objects.filter(parent=None, first_ms__isnull=False).order_by(
        "model_name", "index", "node__name"
    )
    gpus: list[int] = []
    others: list[int] = []
    for _, group in itertools.groupby(
        rows.values_list("model_name", "index", "pk"), key=lambda row: row[:2]
    ):
        ids = [pk for _, _, pk in group]
        turn = shift * NODES_ON % len(ids)
        gpus += ids
        others += ids[turn:] + ids[:turn]
    return gpus, others
