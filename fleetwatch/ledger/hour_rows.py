"""Rows of judged hours: what is stored is compared with what is judged, and replaced whole by the
hour where it differs.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sized
from datetime import date
from functools import lru_cache
from typing import Any

import numpy as np
from django.db import connection

from fleetwatch.ledger import hour_cells, run_rows
from fleetwatch.ledger.hour_cuts import spans_of_hours
from fleetwatch.ledger.judgement.observations import NOBODY, Judgement
from fleetwatch.ledger.models import HOURS, Entry, Run
from fleetwatch.lib.intervals import floor_hour_ms, from_ms
from fleetwatch.lib.spans import Span
from fleetwatch.lib.sql import execute

ENTRY_COLUMNS = (
    "gpu_id", "start", "job_id", "state", "kind", "reason", "signal", "efficiency_source", "tier",
    "policy_id", "gpu_ms", "energy_j",
)  # fmt: skip

HOURS_PER_DELETE = 24
NULL = "\\N"  # as COPY writes it

# What is stored, as the lines that COPY writes, an hour in one row: a line is compared as it is,
# and nothing is parsed.
_STORED_ENTRIES = """
SELECT (extract(epoch FROM date_trunc('hour', start, 'UTC')) * 1000)::bigint,
       string_agg(concat_ws(E'\\t',
           gpu_id, to_char(start AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')
           || '+00', coalesce(job_id::text, '\\N'),
           state, kind, reason, signal, efficiency_source, tier, policy_id, gpu_ms,
           coalesce(energy_j::text, '\\N')
       ), E'\\n')
FROM ledger_entry
WHERE node_id = %s AND start >= %s AND start < %s
GROUP BY 1
"""

_COUNT_VERSIONS = """
INSERT INTO ledger_nodeday AS kept (node_id, day, versions) VALUES (%s, %s, %s::bigint[])
ON CONFLICT (node_id, day) DO UPDATE SET versions = (
    SELECT array_agg(old + more ORDER BY hour)
    FROM unnest(kept.versions, excluded.versions) WITH ORDINALITY AS each (old, more, hour)
)
"""

Row = tuple[Any, ...]
# lines of COPY without the node, and parts of runs, by clock hour
Lines = dict[int, list[str]]
Parts = dict[int, run_rows.Rows]


def entry_rows(judged: Judgement, policy_id: int, *, within: Span) -> list[Row]:
    """Rows of ENTRY_COLUMNS, of the cuts that begin within the span."""
    return [
        (gpu_id, from_ms(cut_ms), *holder_and_words, policy_id, gpu_ms, energy_j)
        for gpu_id, cut_ms, *holder_and_words, gpu_ms, energy_j in judged.entries
        if within[0] <= cut_ms < within[1]
    ]


def entry_lines(judged: Judgement, policy_id: int, *, within: Span) -> Lines:
    """Lines of ENTRY_COLUMNS by clock hour, of the cuts that begin within the span."""
    entries = judged.entries
    keep = np.flatnonzero((entries.cut_ms >= within[0]) & (entries.cut_ms < within[1]))
    texts = ["\t".join(words) for words in entries.texts]
    hours: Lines = defaultdict(list)
    for gpu_id, cut_ms, job_id, words, gpu_ms, energy_j in entries.rows(keep):
        job = NULL if job_id == NOBODY else job_id
        holder = f"{gpu_id}\t{_moment(cut_ms)}\t{job}\t{texts[words]}\t{policy_id}"
        hours[floor_hour_ms(cut_ms)].append(f"{holder}\t{gpu_ms}\t{_joules(energy_j)}")
    return hours


@lru_cache(maxsize=1024)
def _moment(at_ms: int) -> str:
    """As the database writes it."""
    return f"{from_ms(at_ms):%Y-%m-%d %H:%M:%S}+00"


def _joules(energy_j: float) -> str:
    return NULL if math.isnan(energy_j) else repr(energy_j).removesuffix(".0")


def replace(
    node_id: int, start_ms: int, end_ms: int, judged: Judgement, *, policy_id: int
) -> dict[str, int]:
    """How many hours, entries and parts of runs of [start_ms, end_ms), both cuts, changed and were
    written anew.
    """
    entries = changed_entries(node_id, start_ms, end_ms, judged, policy_id)
    for start, end in _deleted_at_once(entries, start_ms, end_ms):
        Entry.objects.filter(
            node_id=node_id, start__gte=from_ms(start), start__lt=from_ms(end)
        ).delete()
    copy_entries(node_id, entries)
    if entries:
        hour_cells.write(node_id, judged.cells, entries, start_ms=start_ms, end_ms=end_ms)
    parts = replace_runs(node_id, start_ms, end_ms, judged)
    return {
        "changed": len(entries.keys() | parts.keys()),
        "entries": count(entries),
        "runs": count(parts),
    }


def replace_runs(node_id: int, start_ms: int, end_ms: int, judged: Judgement) -> Parts:
    """The parts of runs of [start_ms, end_ms), both cuts, that were written anew, by clock hour."""
    parts = changed_runs(node_id, start_ms, end_ms, judged)
    for start, end in _deleted_at_once(parts, start_ms, end_ms):
        Run.objects.filter(
            node_id=node_id, end_ms__gt=start, end_ms__lte=end, start_ms__gte=start
        ).delete()
    run_rows.copy(node_id, parts)
    return parts


def changed_entries(
    node_id: int, start_ms: int, end_ms: int, judged: Judgement, policy_id: int
) -> Lines:
    """The judged lines of the clock hours of [start_ms, end_ms), both cuts, whose stored entries
    are not exactly these; nothing is written.
    """
    rows = execute(_STORED_ENTRIES, [node_id, from_ms(start_ms), from_ms(end_ms)])
    stored = {hour: text.split("\n") for hour, text in rows}
    lines = entry_lines(judged, policy_id, within=(start_ms, end_ms))
    return run_rows.differing(stored, lines, [], sorted)


def changed_runs(node_id: int, start_ms: int, end_ms: int, judged: Judgement) -> Parts:
    """The same of parts of runs."""
    return run_rows.differing(
        run_rows.by_hour(run_rows.stored_rows(node_id, start_ms, end_ms)),
        run_rows.by_hour(run_rows.judged_rows(judged, within=(start_ms, end_ms))),
        run_rows.NO_ROWS,
        np.ndarray.tobytes,
    )


def _deleted_at_once(hours: Iterable[int], low: int, high: int) -> list[Span]:
    """The clock hours as spans, as far as they lie within [low, high): a month may end in the
    middle of an hour.
    """
    return [
        (max(start, low), min(end, high))
        for start, end in spans_of_hours(hours, at_most=HOURS_PER_DELETE)
    ]


def count(hours: Mapping[int, Sized]) -> int:
    """How many rows there are in all hours."""
    return sum(map(len, hours.values()))


def count_versions(node_id: int, hours: Iterable[int]) -> None:
    """Says of these clock hours that their entries are new, in the transaction that wrote them."""
    days: dict[date, list[int]] = {}
    for hour in hours:
        at = from_ms(hour)
        days.setdefault(at.date(), [0] * HOURS)[at.hour] = 1
    with connection.cursor() as cursor:
        cursor.executemany(_COUNT_VERSIONS, [(node_id, day, days[day]) for day in sorted(days)])


def copy_rows(table: str, columns: Iterable[str], rows: Iterable[Row]) -> None:
    """Appends rows to a table."""
    with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN") as copy,
    ):
        for row in rows:
            copy.write_row(row)


def copy_entries(node_id: int, hours: Lines) -> None:
    """Appends the lines to the entries."""
    if text := "".join(f"{node_id}\t{line}\n" for lines in hours.values() for line in lines):
        with (
            connection.cursor() as cursor,
            cursor.copy(
                f"COPY ledger_entry (node_id, {', '.join(ENTRY_COLUMNS)}) FROM STDIN"
            ) as copy,
        ):
            copy.write(text)
    count_versions(node_id, hours)
