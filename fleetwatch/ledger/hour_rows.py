"""Rows of judged hours: what is stored is compared with what is judged, and replaced whole by the
hour where it differs.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sized
from datetime import date
from typing import Any

import numpy as np
from django.db import connection

from fleetwatch.ledger import hour_cells, run_rows
from fleetwatch.ledger.hour_cuts import spans_of_hours
from fleetwatch.ledger.judgement.observations import NOBODY, Judgement
from fleetwatch.ledger.models import HOURS, Entry, Run
from fleetwatch.lib.intervals import HOUR_MS, from_ms, to_ms

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
Hours = dict[int, list[Row]]
# lines of COPY without the node, and parts of runs, by clock hour
Lines = dict[int, list[str]]
Parts = dict[int, run_rows.Rows]
Span = tuple[int, int]


def entry_rows(judged: Judgement, policy_id: int, *, within: Span) -> Hours:
    """Rows of ENTRY_COLUMNS by clock hour, of the cuts that begin within the span."""
    hours: Hours = defaultdict(list)
    low, high = within
    starts = {
        cut_ms: from_ms(cut_ms)
        for cut_ms in {one.cut_ms for one in judged.entries}
        if low <= cut_ms < high
    }
    for one in judged.entries:
        start = starts.get(one.cut_ms)
        if start is None:
            continue
        hours[one.cut_ms // HOUR_MS * HOUR_MS].append(
            (
                one.gpu_id, start, one.job_id, one.state, one.kind, one.reason, one.signal,
                one.efficiency_source, one.tier, policy_id, one.gpu_ms, one.energy_j,
            )
        )  # fmt: skip
    return hours


def stored_entries(node_id: int, start_ms: int, end_ms: int) -> Hours:
    """The stored rows of ENTRY_COLUMNS of the cuts in [start_ms, end_ms), by clock hour."""
    hours: Hours = defaultdict(list)
    rows = Entry.objects.filter(
        node_id=node_id, start__gte=from_ms(start_ms), start__lt=from_ms(end_ms)
    )
    for row in rows.values_list(*ENTRY_COLUMNS):
        hours[to_ms(row[1]) // HOUR_MS * HOUR_MS].append(row)
    return hours


def entry_lines(judged: Judgement, policy_id: int, *, within: Span) -> Lines:
    """Lines of ENTRY_COLUMNS by clock hour, of the cuts that begin within the span."""
    table = judged.table
    keep = np.flatnonzero((table.cut_ms >= within[0]) & (table.cut_ms < within[1]))
    starts = {
        cut_ms: f"{from_ms(cut_ms):%Y-%m-%d %H:%M:%S}+00"
        for cut_ms in np.unique(table.cut_ms[keep]).tolist()
    }
    texts = ["\t".join(words) for words in table.texts]
    columns = (table.gpu_id, table.cut_ms, table.job_id, table.words, table.gpu_ms, table.energy_j)
    hours: Lines = defaultdict(list)
    for gpu_id, cut_ms, job_id, words, gpu_ms, energy_j in zip(
        *(column[keep].tolist() for column in columns), strict=True
    ):
        job = NULL if job_id == NOBODY else job_id
        energy = NULL if math.isnan(energy_j) else repr(energy_j).removesuffix(".0")
        hours[cut_ms // HOUR_MS * HOUR_MS].append(
            f"{gpu_id}\t{starts[cut_ms]}\t{job}\t{texts[words]}\t{policy_id}\t{gpu_ms}\t{energy}"
        )
    return hours


def replace(
    node_id: int, start_ms: int, end_ms: int, judged: Judgement, *, policy_id: int
) -> dict[str, int]:
    """How many hours, entries and parts of runs of [start_ms, end_ms), both cuts, changed and were
    written anew.
    """
    entries = _changed_entries(node_id, start_ms, end_ms, judged, policy_id)
    for start, end in _clipped(spans_of_hours(entries, at_most=HOURS_PER_DELETE), start_ms, end_ms):
        Entry.objects.filter(
            node_id=node_id, start__gte=from_ms(start), start__lt=from_ms(end)
        ).delete()
    _copy_entries(node_id, entries)
    if entries:
        hour_cells.write(node_id, judged.cells, entries, start_ms=start_ms, end_ms=end_ms)
    parts = replace_runs(node_id, start_ms, end_ms, judged)
    return {
        "changed": len(entries.keys() | parts.keys()),
        "entries": _count(entries),
        "runs": _count(parts),
    }


def replace_runs(node_id: int, start_ms: int, end_ms: int, judged: Judgement) -> Parts:
    """The parts of runs of [start_ms, end_ms), both cuts, that were written anew, by clock hour."""
    parts = _changed_runs(node_id, start_ms, end_ms, judged)
    for start, end in _clipped(spans_of_hours(parts, at_most=HOURS_PER_DELETE), start_ms, end_ms):
        Run.objects.filter(
            node_id=node_id, end_ms__gt=start, end_ms__lte=end, start_ms__gte=start
        ).delete()
    run_rows.copy(node_id, parts)
    return parts


def append(node_id: int, entries: Lines, parts: Parts) -> None:
    """Writes rows beside those that are there."""
    _copy_entries(node_id, entries)
    run_rows.copy(node_id, parts)


def differing_hours(
    node_id: int, start_ms: int, end_ms: int, judged: Judgement, *, policy_id: int
) -> set[int]:
    """The clock hours of [start_ms, end_ms), both cuts, whose stored entries are not exactly the
    judged ones; nothing is written.
    """
    return set(_changed_entries(node_id, start_ms, end_ms, judged, policy_id))


def differing_runs(node_id: int, start_ms: int, end_ms: int, judged: Judgement) -> set[int]:
    """The same of parts of runs."""
    return set(_changed_runs(node_id, start_ms, end_ms, judged))


def _changed_entries(
    node_id: int, start_ms: int, end_ms: int, judged: Judgement, policy_id: int
) -> Lines:
    with connection.cursor() as cursor:
        cursor.execute(_STORED_ENTRIES, [node_id, from_ms(start_ms), from_ms(end_ms)])
        stored = {hour: text.split("\n") for hour, text in cursor.fetchall()}
    return _differing(stored, entry_lines(judged, policy_id, within=(start_ms, end_ms)))


def _changed_runs(node_id: int, start_ms: int, end_ms: int, judged: Judgement) -> Parts:
    stored = run_rows.by_hour(run_rows.stored_rows(node_id, start_ms, end_ms))
    return run_rows.differing(
        stored, run_rows.by_hour(run_rows.judged_rows(judged, within=(start_ms, end_ms)))
    )


def _clipped(spans: Iterable[Span], low: int, high: int) -> list[Span]:
    """The spans of whole hours as far as they lie within [low, high): a month may end in the middle
    of an hour.
    """
    return [(max(start, low), min(end, high)) for start, end in spans]


def _count(hours: Mapping[int, Sized]) -> int:
    return sum(map(len, hours.values()))


def _differing(stored: Lines, judged: Lines) -> Lines:
    """The judged lines of every hour whose stored lines are not exactly these."""
    hours = sorted(stored.keys() | judged.keys())
    return {
        hour: judged.get(hour, [])
        for hour in hours
        if sorted(stored.get(hour, [])) != sorted(judged.get(hour, []))
    }


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


def _copy_entries(node_id: int, hours: Lines) -> None:
    if text := "".join(f"{node_id}\t{line}\n" for lines in hours.values() for line in lines):
        with (
            connection.cursor() as cursor,
            cursor.copy(
                f"COPY ledger_entry (node_id, {', '.join(ENTRY_COLUMNS)}) FROM STDIN"
            ) as copy,
        ):
            copy.write(text)
    count_versions(node_id, hours)
