"""Sums of days of causes: what a month of findings is read from.

Never read where a day's causes changed since.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta

import numpy as np
from django.db import connection, transaction
from numpy.typing import NDArray

from fleetwatch.diagnosis.cause_time import CauseTime
from fleetwatch.diagnosis.cause_totals import HELD, HIGH, LOW, WASTED
from fleetwatch.diagnosis.models import DiagnosedDay
from fleetwatch.figures import engine
from fleetwatch.figures.priced_columns import Columns
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
    start = interval.start.astimezone(UTC).date()
    days = (interval.end.astimezone(UTC).date() - start).days
    return [wrong for place in range(days) for wrong in _wrong(start + timedelta(days=place))]


def _wrong(day: date) -> list[tuple[str, date, int]]:
    by_sum = _by_line(day, with_sums=True)
    by_entry = _by_line(day, with_sums=False)
    lines = by_sum.keys() | by_entry.keys()
    off = Counter(line[0] for line in lines if by_sum.get(line) != by_entry.get(line))
    names = Node.objects.filter(pk__in=off).values_list("pk", "name")
    return sorted((name, day, off[pk]) for pk, name in names)


def _by_line(day: date, *, with_sums: bool) -> dict[_Line, tuple[int, ...]]:
    """What was held and wasted, and what could be saved of it, by node, job and cause."""
    start = datetime.combine(day, time(), UTC)
    whole_day = Interval(start, start + timedelta(days=1))
    spans = engine.read(CauseTime(with_sums=with_sums), whole_day, by=("node",))
    lines: dict[_Line, NDArray[np.int64]] = {}
    for line, amounts in zip(_lines(spans), _amounts(spans.figures["ms"]), strict=True):
        lines[line] = lines.get(line, 0) + amounts
    return {line: tuple(amounts.tolist()) for line, amounts in lines.items()}


def _lines(spans: Columns[str]) -> Iterator[_Line]:
    """Of each span."""
    nodes = spans.by["node"]
    causes = [spans.labels[label] for label in spans.label.tolist()]
    return zip(nodes.ids[nodes.at].tolist(), spans.job.tolist(), causes, strict=True)


def _amounts(ms: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of rows of FIGURES what was held, wasted, and could be saved of it."""
    return np.stack([ms[:, HELD], ms[:, WASTED].sum(axis=1), ms[:, LOW], ms[:, HIGH]], axis=1)
