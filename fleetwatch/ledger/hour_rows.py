"""Rows of judged hours: what is stored is compared with what is judged, whole hours first; of an
hour that differs the rows that do are written.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Sized
from datetime import date
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from django.db import connection

from fleetwatch.ledger import hour_cells, run_rows
from fleetwatch.ledger.judgement.observations import NOBODY, Judgement
from fleetwatch.ledger.models import HOURS
from fleetwatch.lib.batched import integers, run
from fleetwatch.lib.intervals import floor_hour_ms, from_ms
from fleetwatch.lib.spans import Span
from fleetwatch.lib.sql import execute

ENTRY_COLUMNS = (
    "gpu_id", "start", "job_id", "state", "kind", "reason", "signal", "efficiency_source", "tier",
    "policy_id", "gpu_ms", "energy_j",
)  # fmt: skip

NULL = "\\N"  # as COPY writes it

# What is stored, as the lines that COPY writes, an hour in one row, with the ids in their order: a
# line is compared as it is, and nothing is parsed.
_STORED_ENTRIES = """
SELECT node_id, floor(date_part('epoch', start) / 3600)::bigint * 3600000,
       string_agg(concat_ws(E'\\t',
           gpu_id, to_char(start AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')
           || '+00', coalesce(job_id::text, '\\N'),
           state, kind, reason, signal, efficiency_source, tier, policy_id, gpu_ms,
           coalesce(energy_j::text, '\\N')
       ), E'\\n'), array_agg(id)
FROM ledger_entry
WHERE node_id = ANY(%s::bigint[]) AND start >= %s AND start < %s
GROUP BY 1, 2
"""
_DELETE_ENTRIES = "DELETE FROM ledger_entry WHERE id = ANY(%(ids)s::bigint[]) RETURNING id"
_DELETE_RUNS = "DELETE FROM ledger_hourruns WHERE id = ANY(%(ids)s::bigint[]) RETURNING id"

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
# lines of COPY without the node, by clock hour
Lines = dict[int, list[str]]


class _Stored(NamedTuple):
    """The stored entries of an hour, and their ids."""

    lines: list[str]
    ids: list[int]


_NONE_STORED = _Stored([], [])


class _Difference(NamedTuple):
    """What is to be done to an hour's entries: lines that are new, ids of those that go."""

    new: list[str]
    gone: list[int]


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
    """How many hours, entries and parts of runs of [start_ms, end_ms), both cuts, changed, by what
    is judged of each node.
    """
    stored = _stored_lines(judged, start_ms, end_ms)
    entries = _changed_lines(stored, judged, (start_ms, end_ms), policy_id)
    written = _write_entries(entries, stored)
    hour_cells.write(
        {node_id: (judged[node_id].cells, hours) for node_id, hours in entries.items()},
        start_ms=start_ms,
        end_ms=end_ms,
    )
    runs = replace_runs(judged, start_ms, end_ms)
    # hours whose entries changed were counted as these were written
    count_versions({node_id: runs[node_id].keys() - entries[node_id].keys() for node_id in judged})
    return Counter(
        changed=sum(len(entries[node_id].keys() | runs[node_id].keys()) for node_id in judged),
        entries=written,
        runs=sum(map(run_rows.count_parts, runs.values())),
    )


def replace_runs(
    judged: Mapping[int, Judgement], start_ms: int, end_ms: int
) -> dict[int, run_rows.Rows]:
    """The rows of runs of [start_ms, end_ms), both cuts, that are new or other ones, by node and
    clock hour: all hours in which any differs.
    """
    stored = run_rows.stored_rows([*judged], start_ms, end_ms)
    differences = {
        node_id: {
            hour: run_rows.difference(stored[node_id].get(hour, []), rows)
            for hour, rows in hours.items()
        }
        for node_id, hours in _changed_runs(stored, judged, (start_ms, end_ms)).items()
    }
    every = [each for of_node in differences.values() for each in of_node.values()]
    _delete_rows(_DELETE_RUNS, [run_id for each in every for run_id in each.gone])
    rows = {
        node_id: {hour: each.new for hour, each in of_node.items()}
        for node_id, of_node in differences.items()
    }
    run_rows.copy(rows)
    return rows


def changed_entries(
    node_id: int, start_ms: int, end_ms: int, judged: Judgement, policy_id: int
) -> Lines:
    """The judged lines of the clock hours of [start_ms, end_ms), both cuts, whose stored entries
    are not exactly these; nothing is written.
    """
    stored = _stored_lines([node_id], start_ms, end_ms)
    return _changed_lines(stored, {node_id: judged}, (start_ms, end_ms), policy_id)[node_id]


def changed_runs(node_id: int, start_ms: int, end_ms: int, judged: Judgement) -> run_rows.Rows:
    """The same of rows of runs."""
    stored = run_rows.stored_rows([node_id], start_ms, end_ms)
    return _changed_runs(stored, {node_id: judged}, (start_ms, end_ms))[node_id]


def _stored_lines(
    node_ids: Iterable[int], start_ms: int, end_ms: int
) -> dict[int, dict[int, _Stored]]:
    """By node and clock hour its stored entries."""
    stored: dict[int, dict[int, _Stored]] = {node_id: {} for node_id in node_ids}
    rows = execute(_STORED_ENTRIES, [list(stored), from_ms(start_ms), from_ms(end_ms)])
    for node_id, hour, text, ids in rows:
        stored[node_id][hour] = _Stored(text.split("\n"), ids)
    return stored


def _changed_lines(
    stored: Mapping[int, Mapping[int, _Stored]],
    judged: Mapping[int, Judgement],
    within: Span,
    policy_id: int,
) -> dict[int, Lines]:
    return {
        node_id: run_rows.differing(
            {hour: was.lines for hour, was in stored[node_id].items()},
            entry_lines(of_node, policy_id, within=within),
            sorted,
        )
        for node_id, of_node in judged.items()
    }


def _write_entries(
    entries: Mapping[int, Lines], stored: Mapping[int, Mapping[int, _Stored]]
) -> int:
    """How many were written, of the hours that differ."""
    differences = {
        node_id: {
            hour: _difference(stored[node_id].get(hour, _NONE_STORED), lines)
            for hour, lines in hours.items()
        }
        for node_id, hours in entries.items()
    }
    every = [each for of_node in differences.values() for each in of_node.values()]
    _delete_rows(_DELETE_ENTRIES, [entry_id for each in every for entry_id in each.gone])
    copy_entries(
        {
            node_id: {hour: each.new for hour, each in of_node.items()}
            for node_id, of_node in differences.items()
        }
    )
    return sum(len(each.new) for each in every)


def _delete_rows(statement: str, ids: Sequence[int]) -> None:
    if ids:
        run(statement, {"ids": integers(ids)})


def _difference(stored: _Stored, judged: Sequence[str]) -> _Difference:
    """What makes the judged lines of the stored ones."""
    was = set(stored.lines)
    now = set(judged)
    if len(was) < len(stored.lines) or len(now) < len(judged):
        return _Difference([*judged], stored.ids)  # some are there twice
    ids = zip(stored.lines, stored.ids, strict=True)
    return _Difference(
        [line for line in judged if line not in was],
        [entry_id for line, entry_id in ids if line not in now],
    )


def _changed_runs(
    stored: Mapping[int, run_rows.StoredRows], judged: Mapping[int, Judgement], within: Span
) -> dict[int, run_rows.Rows]:
    rows = run_rows.rows_of_nodes(judged, within=within)
    return {
        node_id: run_rows.differing(stored[node_id], rows[node_id], run_rows.compared)
        for node_id in judged
    }


def count(hours: Mapping[int, Sized]) -> int:
    """How many rows there are in all hours."""
    return sum(map(len, hours.values()))


def count_versions(hours: Mapping[int, Iterable[int]]) -> None:
    """Says of these nodes' clock hours that their entries or runs are new, in the transaction that
    wrote them.
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
