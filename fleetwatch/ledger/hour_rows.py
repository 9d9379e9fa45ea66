"""Rows of judged hours: what is stored is compared with what is judged, and replaced whole by the
hour where it differs.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from datetime import date
from functools import lru_cache
from typing import Any

import numpy as np
from django.db import connection

from fleetwatch.ledger import hour_cells, run_rows
from fleetwatch.ledger.hour_cuts import spans_of_hours
from fleetwatch.ledger.judgement.observations import NOBODY, Judgement
from fleetwatch.ledger.models import HOURS
from fleetwatch.lib.batched import integers
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
SELECT node_id, (extract(epoch FROM date_trunc('hour', start, 'UTC')) * 1000)::bigint,
       string_agg(concat_ws(E'\\t',
           gpu_id, to_char(start AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')
           || '+00', coalesce(job_id::text, '\\N'),
           state, kind, reason, signal, efficiency_source, tier, policy_id, gpu_ms,
           coalesce(energy_j::text, '\\N')
       ), E'\\n')
FROM ledger_entry
WHERE node_id = ANY(%s::bigint[]) AND start >= %s AND start < %s
GROUP BY 1, 2
"""
_DELETE_ENTRIES = """
DELETE FROM ledger_entry AS entry
USING unnest(%s::bigint[], %s::timestamptz[], %s::timestamptz[]) AS gone (node_id, low, high)
WHERE entry.node_id = gone.node_id AND entry.start >= gone.low AND entry.start < gone.high
"""
# a part lies within one hour: the lower bound on its end only lets the index be used
_DELETE_RUNS = """
DELETE FROM ledger_run AS run
USING unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS gone (node_id, low, high)
WHERE run.node_id = gone.node_id
  AND run.end_ms > gone.low AND run.end_ms <= gone.high AND run.start_ms >= gone.low
"""

_COUNT_VERSIONS = """
INSERT INTO ledger_nodeday AS kept (node_id, day, versions)
SELECT node_id, day, versions::bigint[]
FROM unnest(%s::bigint[], %s::date[], %s::text[]) AS given (node_id, day, versions)
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
    judged: Mapping[int, Judgement], start_ms: int, end_ms: int, *, policy_id: int
) -> Counter[str]:
    """How many hours, entries and parts of runs of [start_ms, end_ms), both cuts, changed and were
    written anew, by what is judged of each node.
    """
    stored = _stored_lines(judged, start_ms, end_ms)
    entries = _changed_lines(stored, judged, (start_ms, end_ms), policy_id)
    _delete(_DELETE_ENTRIES, _gone(entries, stored, (start_ms, end_ms)), from_ms)
    copy_entries(entries)
    hour_cells.write(
        {node_id: (judged[node_id].cells, hours) for node_id, hours in entries.items()},
        start_ms=start_ms,
        end_ms=end_ms,
    )
    parts = replace_runs(judged, start_ms, end_ms)
    return Counter(
        changed=sum(len(entries[node_id].keys() | parts[node_id].keys()) for node_id in judged),
        entries=sum(map(count, entries.values())),
        runs=sum(map(count, parts.values())),
    )


def replace_runs(judged: Mapping[int, Judgement], start_ms: int, end_ms: int) -> dict[int, Parts]:
    """The parts of runs of [start_ms, end_ms), both cuts, that were written anew, by node and clock
    hour.
    """
    stored = _stored_parts(judged, start_ms, end_ms)
    parts = _changed_parts(stored, judged, (start_ms, end_ms))
    _delete(_DELETE_RUNS, _gone(parts, stored, (start_ms, end_ms)), int)
    run_rows.copy(parts)
    return parts


def changed_entries(
    node_id: int, start_ms: int, end_ms: int, judged: Judgement, policy_id: int
) -> Lines:
    """The judged lines of the clock hours of [start_ms, end_ms), both cuts, whose stored entries
    are not exactly these; nothing is written.
    """
    stored = _stored_lines([node_id], start_ms, end_ms)
    return _changed_lines(stored, {node_id: judged}, (start_ms, end_ms), policy_id)[node_id]


def changed_runs(node_id: int, start_ms: int, end_ms: int, judged: Judgement) -> Parts:
    """The same of parts of runs."""
    stored = _stored_parts([node_id], start_ms, end_ms)
    return _changed_parts(stored, {node_id: judged}, (start_ms, end_ms))[node_id]


def _stored_lines(node_ids: Iterable[int], start_ms: int, end_ms: int) -> dict[int, Lines]:
    """By node its stored entries."""
    stored: dict[int, Lines] = {node_id: {} for node_id in node_ids}
    rows = execute(_STORED_ENTRIES, [list(stored), from_ms(start_ms), from_ms(end_ms)])
    for node_id, hour, text in rows:
        stored[node_id][hour] = text.split("\n")
    return stored


def _changed_lines(
    stored: Mapping[int, Lines], judged: Mapping[int, Judgement], within: Span, policy_id: int
) -> dict[int, Lines]:
    return {
        node_id: run_rows.differing(
            stored[node_id], entry_lines(of_node, policy_id, within=within), [], sorted
        )
        for node_id, of_node in judged.items()
    }


def _stored_parts(node_ids: Iterable[int], start_ms: int, end_ms: int) -> dict[int, Parts]:
    """By node its stored parts of runs."""
    stored = run_rows.stored_rows(list(node_ids), start_ms, end_ms)
    return {node_id: run_rows.by_hour(rows) for node_id, rows in stored.items()}


def _changed_parts(
    stored: Mapping[int, Parts], judged: Mapping[int, Judgement], within: Span
) -> dict[int, Parts]:
    return {
        node_id: run_rows.differing(
            stored[node_id],
            run_rows.by_hour(run_rows.judged_rows(of_node, within=within)),
            run_rows.NO_ROWS,
            np.ndarray.tobytes,
        )
        for node_id, of_node in judged.items()
    }


def _gone(
    changed: Mapping[int, Mapping[int, Sized]],
    stored: Mapping[int, Mapping[int, Sized]],
    within: Span,
) -> list[tuple[int, int, int]]:
    """(node, from when, to when) of what is stored of the clock hours that changed, as far as they
    lie within: a month may end in the middle of an hour.
    """
    return [
        (node_id, max(start, within[0]), min(end, within[1]))
        for node_id, hours in changed.items()
        for start, end in spans_of_hours(
            hours.keys() & stored[node_id].keys(), at_most=HOURS_PER_DELETE
        )
    ]


def _delete(
    statement: str, gone: Sequence[tuple[int, int, int]], moment: Callable[[int], Any]
) -> None:
    if gone:
        node_ids, low, high = zip(*gone, strict=True)
        execute(statement, [list(node_ids), list(map(moment, low)), list(map(moment, high))])


def count(hours: Mapping[int, Sized]) -> int:
    """How many rows there are in all hours."""
    return sum(map(len, hours.values()))


def count_versions(hours: Mapping[int, Iterable[int]]) -> None:
    """Says of these nodes' clock hours that their entries are new, in the transaction that wrote
    them.
    """
    days: dict[tuple[int, date], list[int]] = {}
    for node_id, of_node in hours.items():
        for at in map(from_ms, of_node):
            days.setdefault((node_id, at.date()), [0] * HOURS)[at.hour] = 1
    if days:
        keys = sorted(days)
        node_ids, dates = zip(*keys, strict=True)
        more = [integers(days[key]) for key in keys]
        execute(_COUNT_VERSIONS, [list(node_ids), list(dates), more])


def copy_rows(table: str, columns: Iterable[str], rows: Iterable[Row]) -> None:
    """Appends rows to a table."""
    with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN") as copy,
    ):
        for row in rows:
            copy.write_row(row)


def copy_entries(hours: Mapping[int, Lines]) -> None:
    """Appends the nodes' lines to the entries."""
    text = "".join(
        f"{node_id}\t{line}\n"
        for node_id, of_node in hours.items()
        for lines in of_node.values()
        for line in lines
    )
    if text:
        with (
            connection.cursor() as cursor,
            cursor.copy(
                f"COPY ledger_entry (node_id, {', '.join(ENTRY_COLUMNS)}) FROM STDIN"
            ) as copy,
        ):
            copy.write(text)
    count_versions(hours)
