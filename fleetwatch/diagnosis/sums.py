"""Sums of days of causes: what a month of findings is read from.

Never read where a day's causes changed since.
"""

from collections import Counter, defaultdict
from datetime import UTC, date, datetime, timedelta

import numpy as np
from django.db import connection, transaction

from fleetwatch.diagnosis.cause_columns import HIGH, LOW, WASTED
from fleetwatch.diagnosis.cause_time import CauseTime
from fleetwatch.diagnosis.models import DiagnosedDay
from fleetwatch.figures import engine
from fleetwatch.inventory.models import Node
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.sql import read_statement

_SUM = read_statement("diagnosis/sql/sum_cause_days.sql")
_Line = tuple[int, int, str]  # ids of node and job, cause


@transaction.atomic
def sum_days(now: datetime, limit: int) -> int:
    """How many UTC days of nodes were summed, at most `limit`: those that are over, the newest
    first. Safe twice and beside diagnose().
    """
    waiting = DiagnosedDay.objects.filter(
        is_summed=False, day__lt=now.astimezone(UTC).date()
    ).order_by("-day", "node_id")
    # locked in a statement of its own: the next one then sees what was committed before the lock
    # was had
    ids = list(waiting.select_for_update(skip_locked=True).values_list("pk", flat=True)[:limit])
    with connection.cursor() as cursor:
        cursor.execute(_SUM, {"ids": ids})
        return int(cursor.rowcount)


def wrong_days(interval: Interval) -> list[tuple[str, date, int]]:
    """(node, UTC day, lines) of every sum that is read and is not what its causes sum to: so many
    of its jobs and causes differ.
    """
    start, end = interval.start.astimezone(UTC).date(), interval.end.astimezone(UTC).date()
    return [
        wrong
        for place in range((end - start).days)
        for wrong in _wrong(start + timedelta(days=place))
    ]


def _wrong(day: date) -> list[tuple[str, date, int]]:
    by_sum, by_entry = _by_line(day, with_sums=True), _by_line(day, with_sums=False)
    off = Counter(
        key[0] for key in by_sum.keys() | by_entry.keys() if by_sum.get(key) != by_entry.get(key)
    )
    return sorted(
        (name, day, off[pk])
        for pk, name in Node.objects.filter(pk__in=off).values_list("pk", "name")
    )


def _by_line(day: date, *, with_sums: bool) -> dict[_Line, list[int]]:
    """What was held and wasted, and what could be saved of it, by node, job and cause."""
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    whole_day = Interval(start, start + timedelta(days=1))
    told = engine.read(CauseTime(with_sums=with_sums), whole_day, by=("node",))
    nodes, ms = told.by["node"], told.figures["ms"]
    figures = np.stack([ms[:, 0], ms[:, WASTED].sum(axis=1), ms[:, LOW], ms[:, HIGH]], axis=1)
    found: dict[_Line, list[int]] = defaultdict(lambda: [0] * figures.shape[1])
    columns = (nodes.ids[nodes.at], told.job, told.label, figures)
    for node, job, label, amounts in zip(*(column.tolist() for column in columns), strict=True):
        line = found[node, job, told.labels[label]]
        line[:] = [one + other for one, other in zip(line, amounts, strict=True)]
    return found
