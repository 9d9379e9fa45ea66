"""Rows of judged hours: what is stored is compared with what is judged, and replaced whole by the hour where it differs."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import date
from typing import Any

from django.db import connection

from fleetwatch.ledger.facts import Judgement
from fleetwatch.ledger.models import HOURS, Entry, Run
from fleetwatch.ledger.reading import spans_of_hours
from fleetwatch.lib.intervals import HOUR_MS, from_ms, to_ms

ENTRY_COLUMNS = (
    "gpu_id", "start", "job_id", "state", "kind", "reason", "signal", "efficiency_source", "tier", "policy_id", "gpu_ms", "energy_j",
)  # fmt: skip
RUN_COLUMNS = ("gpu_id", "job_id", "condition", "start_ms", "end_ms", "continues", "state_ms", "figures")

HOURS_PER_DELETE = 24

_COUNT_VERSIONS = """
INSERT INTO ledger_nodeday AS kept (node_id, day, versions) VALUES (%s, %s, %s::bigint[])
ON CONFLICT (node_id, day) DO UPDATE SET versions = (
    SELECT array_agg(old + more ORDER BY hour) FROM unnest(kept.versions, excluded.versions) WITH ORDINALITY AS each (old, more, hour)
)
"""

Row = tuple[Any, ...]
Items = tuple[tuple[str, float], ...]
Hours = dict[int, list[Row]]
Span = tuple[int, int]


def entry_rows(judged: Judgement, policy_id: int, *, within: Span) -> Hours:
    """Rows of ENTRY_COLUMNS by clock hour, of the cuts that begin within the span."""
    hours: Hours = defaultdict(list)
    low, high = within
    for one in judged.entries:
        if not low <= one.cut_ms < high:
            continue
        hours[one.cut_ms // HOUR_MS * HOUR_MS].append(
            (
                one.gpu_id, from_ms(one.cut_ms), one.job_id, one.state, one.kind, one.reason, one.signal,
                one.efficiency_source, one.tier, policy_id, one.gpu_ms, one.energy_j,
            )
        )  # fmt: skip
    return hours


def run_rows(judged: Judgement, *, within: Span) -> Hours:
    """Rows of RUN_COLUMNS by clock hour, of the parts that begin within the span; the dicts as sorted items."""
    hours: Hours = defaultdict(list)
    low, high = within
    for one in judged.parts:
        if not low <= one.start_ms < high:
            continue
        hours[one.start_ms // HOUR_MS * HOUR_MS].append(
            (one.gpu_id, one.job_id, one.condition, one.start_ms, one.end_ms, one.continues, _items(one.state_ms), _figures(one.figures))
        )
    return hours


def stored_entries(node_id: int, start_ms: int, end_ms: int) -> Hours:
    """The stored rows of ENTRY_COLUMNS of the cuts in [start_ms, end_ms), by clock hour."""
    hours: Hours = defaultdict(list)
    rows = Entry.objects.filter(node_id=node_id, start__gte=from_ms(start_ms), start__lt=from_ms(end_ms))
    for row in rows.values_list(*ENTRY_COLUMNS):
        hours[to_ms(row[1]) // HOUR_MS * HOUR_MS].append(row)
    return hours


def stored_runs(node_id: int, start_ms: int, end_ms: int) -> Hours:
    """The stored rows of RUN_COLUMNS that begin in [start_ms, end_ms), both cuts, by clock hour."""
    hours: Hours = defaultdict(list)
    # a part lies within one hour: the lower bound on its end only lets the index be used
    rows = Run.objects.filter(node_id=node_id, end_ms__gt=start_ms, end_ms__lte=end_ms, start_ms__gte=start_ms)
    for *row, state_ms, figures in rows.values_list(*RUN_COLUMNS):
        hours[row[3] // HOUR_MS * HOUR_MS].append((*row, _items(state_ms), _figures(figures)))
    return hours


def replace(node_id: int, start_ms: int, end_ms: int, judged: Judgement, *, policy_id: int) -> dict[str, int]:
    """How many hours, entries and parts of runs of [start_ms, end_ms), both cuts, changed and were written anew."""
    entries = _differing(stored_entries(node_id, start_ms, end_ms), entry_rows(judged, policy_id, within=(start_ms, end_ms)))
    for start, end in _clipped(spans_of_hours(entries, at_most=HOURS_PER_DELETE), start_ms, end_ms):
        Entry.objects.filter(node_id=node_id, start__gte=from_ms(start), start__lt=from_ms(end)).delete()
    _copy_entries(node_id, entries)
    parts = replace_runs(node_id, start_ms, end_ms, judged)
    return {"changed": len(entries.keys() | parts.keys()), "entries": _count(entries), "runs": _count(parts)}


def replace_runs(node_id: int, start_ms: int, end_ms: int, judged: Judgement) -> Hours:
    """The parts of runs of [start_ms, end_ms), both cuts, that were written anew, by clock hour."""
    parts = _differing(stored_runs(node_id, start_ms, end_ms), run_rows(judged, within=(start_ms, end_ms)))
    for start, end in _clipped(spans_of_hours(parts, at_most=HOURS_PER_DELETE), start_ms, end_ms):
        Run.objects.filter(node_id=node_id, end_ms__gt=start, end_ms__lte=end, start_ms__gte=start).delete()
    _copy_runs(node_id, parts)
    return parts


def append(node_id: int, entries: Hours, parts: Hours) -> None:
    """Writes rows beside those that are there."""
    _copy_entries(node_id, entries)
    _copy_runs(node_id, parts)


def differing_hours(node_id: int, start_ms: int, end_ms: int, judged: Judgement, *, policy_id: int) -> set[int]:
    """The clock hours of [start_ms, end_ms), both cuts, whose stored entries are not exactly the judged ones; nothing is written."""
    return set(_differing(stored_entries(node_id, start_ms, end_ms), entry_rows(judged, policy_id, within=(start_ms, end_ms))))


def differing_runs(node_id: int, start_ms: int, end_ms: int, judged: Judgement) -> set[int]:
    """The same of parts of runs."""
    return set(_differing(stored_runs(node_id, start_ms, end_ms), run_rows(judged, within=(start_ms, end_ms))))


def _clipped(spans: Iterable[Span], low: int, high: int) -> list[Span]:
    """The spans of whole hours as far as they lie within [low, high): a month may end in the middle of an hour."""
    return [(max(start, low), min(end, high)) for start, end in spans]


def _count(hours: Hours) -> int:
    return sum(map(len, hours.values()))


def _copy_entries(node_id: int, hours: Hours) -> None:
    copy_rows("ledger_entry", ("node_id", *ENTRY_COLUMNS), ((node_id, *row) for rows in hours.values() for row in rows))
    count_versions(node_id, hours)


def _copy_runs(node_id: int, hours: Hours) -> None:
    rows = ((node_id, *row[:-2], _json(row[-2]), _json(row[-1])) for rows in hours.values() for row in rows)
    copy_rows("ledger_run", ("node_id", *RUN_COLUMNS), rows)


def _differing(stored: Hours, judged: Hours) -> Hours:
    """The judged rows of every hour whose stored rows are not exactly these."""
    hours = sorted(stored.keys() | judged.keys())
    return {hour: judged.get(hour, []) for hour in hours if Counter(stored.get(hour, [])) != Counter(judged.get(hour, []))}


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
    with connection.cursor() as cursor, cursor.copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


def _figures(figures: dict[str, float]) -> Items:
    """Sorted items as floats: jsonb gives a large float back as an integer, and Python compares the two exactly."""
    return tuple(sorted((name, float(value)) for name, value in figures.items()))


def _items(facts: dict[str, Any]) -> Items:
    """A dict as a value that can be compared and counted, whatever the order of its keys."""
    return tuple(sorted(facts.items()))


def _json(items: Items) -> str:
    return json.dumps(dict(items))
