"""When jobs had a cause of diagnosis, five minutes by five minutes: what conditions of causes
measure.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import TypeVar

from fleetwatch.alerts.breach import Watch
from fleetwatch.alerts.episodes import Level, Measured, Span, extend
from fleetwatch.alerts.measuring.judged_jobs import (
    SETTLED_MS,
    begun_ms,
    ends,
    judged_jobs,
    settled_ms,
)
from fleetwatch.diagnosis.causes import BLIND, UNDETERMINED
from fleetwatch.diagnosis.judgement.rules import MEDIUM
from fleetwatch.diagnosis.models import CauseEntry
from fleetwatch.ledger.judgement.cell_states import CELL_MS, CELLS_PER_HOUR
from fleetwatch.lib.intervals import floor_hour_ms, from_ms, to_ms

Key = TypeVar("Key")
Cells = dict[int, Level]  # by when five minutes begin


def measured(causes: Collection[str], watch: Watch, *, cleared: str) -> Measured:
    """The spans of each batch job with one of these causes, or that fires already: in breach where
    one of its GPUs surely has it, clear where all have other causes, neither where nobody knows
    which; where nobody saw it, nothing.
    """
    start = from_ms(floor_hour_ms(watch.start_ms))
    entries = CauseEntry.objects.filter(start__gte=start, start__lt=from_ms(watch.end_ms))
    suspects = entries.filter(cause__in=causes, confidence__gte=MEDIUM)
    jobs = judged_jobs(suspects.order_by().values_list("job_id", flat=True).distinct(), watch)
    rows = entries.filter(job__in=jobs).values_list(
        "job_id", "start", "cause", "confidence", "cells"
    )
    cells = cells_by(rows.iterator(), causes, watch)
    last_ms = {job_id: max(own) + CELL_MS for job_id, own in cells.items()}
    return Measured(
        spans={jobs[job_id].key: spans_of(own) for job_id, own in cells.items()},
        ends=ends(last_ms, jobs, watch, judged_ms=settled_ms(watch)),
        begun_ms=begun_ms(jobs),
        cleared=cleared,
    )


def cells_by(
    rows: Iterable[tuple[Key, datetime, str, int, int]], causes: Collection[str], watch: Watch
) -> Mapping[Key, Cells]:
    """Of rows of CauseEntry (of what it is, start, cause, confidence, cells) by what it is the five
    minutes: the worst of it.
    """
    end_ms = watch.end_ms - SETTLED_MS
    cells: dict[Key, Cells] = defaultdict(dict)
    for key, start, cause, confidence, bits in rows:
        level = _level(cause, confidence, causes)
        if level is None:
            continue
        own = cells[key]
        for start_ms in starts(to_ms(start), bits):
            if watch.start_ms < start_ms + CELL_MS <= end_ms:
                own[start_ms] = max(level, own.get(start_ms, level))
    return {key: own for key, own in cells.items() if own}


def _level(cause: str, confidence: int, causes: Collection[str]) -> Level | None:
    """None: nobody saw it."""
    if cause in causes:
        return Level.BREACH if confidence >= MEDIUM else Level.BETWEEN
    if cause in BLIND:
        return None
    return Level.BETWEEN if cause == UNDETERMINED else Level.CLEAR


def starts(cut_ms: int, bits: int) -> Iterator[int]:
    """When the five minutes of these bits begin: bit n is the n-th of the clock hour."""
    hour_ms = floor_hour_ms(cut_ms)
    return (hour_ms + cell * CELL_MS for cell in range(CELLS_PER_HOUR) if bits >> cell & 1)


def spans_of(cells: Cells) -> list[Span]:
    """The five minutes in order, neighbours of one level as one."""
    spans: list[Span] = []
    for start_ms in sorted(cells):
        extend(spans, Span(start_ms, start_ms + CELL_MS, cells[start_ms]))
    return spans
