"""Sums of days of causes: what a month of findings is read from.

Never read where a day's causes changed since.
"""

from collections import Counter, defaultdict
from datetime import UTC, date, datetime, time, timedelta

import numpy as np
from django.db import connection, transaction
from numpy.typing import NDArray

from fleetwatch.diagnosis.cause_time import CauseTime
from fleetwatch.diagnosis.cause_totals import FIGURES
from fleetwatch.diagnosis.models import DiagnosedDay
from fleetwatch.figures import engine
from fleetwatch.inventory.models import Node
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.sql import read_statement

DAY = timedelta(days=1)
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
    day = datetime.combine(interval.start.astimezone(UTC), time(), UTC)
    wrong = []
    while day.date() < interval.end.astimezone(UTC).date():
        wrong += _wrong(Interval(day, day + DAY))
        day += DAY
    return wrong


def _wrong(day: Interval) -> list[tuple[str, date, int]]:
    by_sum = _by_line(day, with_sums=True)
    by_entry = _by_line(day, with_sums=False)
    lines = by_sum.keys() | by_entry.keys()
    off = Counter(line[0] for line in lines if by_sum.get(line) != by_entry.get(line))
    names = Node.objects.filter(pk__in=off).values_list("pk", "name")
    return sorted((name, day.start.date(), off[pk]) for pk, name in names)


def _by_line(day: Interval, *, with_sums: bool) -> dict[_Line, list[int]]:
    """FIGURES in milliseconds by node, job and cause."""
    spans = engine.read(CauseTime(with_sums=with_sums), day, by=("node",))
    nodes = spans.by["node"]
    causes = [spans.labels[label] for label in spans.label.tolist()]
    lines: dict[_Line, NDArray[np.int64]] = defaultdict(lambda: np.zeros(len(FIGURES), np.int64))
    for *line, ms in zip(
        nodes.ids[nodes.at].tolist(), spans.job.tolist(), causes, spans.figures["ms"], strict=True
    ):
        lines[*line] += ms
    return {line: ms.tolist() for line, ms in lines.items()}
