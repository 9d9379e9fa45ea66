"""Rows of causes: made from verdicts and the ledger's cells, compared with what is stored, replaced
whole by the hour.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
from django.db import connection

from fleetwatch.diagnosis.causes import OF_NODES, UNFIT
from fleetwatch.diagnosis.judgement.lanes import Lanes
from fleetwatch.diagnosis.judgement.verdicts import CAUSES, Verdicts
from fleetwatch.diagnosis.models import DiagnosedDay
from fleetwatch.ledger.hour_rows import copy_rows
from fleetwatch.ledger.judgement import cell_states
from fleetwatch.ledger.judgement.cell_states import CELL_MS
from fleetwatch.ledger.judgement.observations import Ints
from fleetwatch.lib.intervals import HOUR_MS, from_ms, to_ms
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

_REFRESH_FINDINGS = read_statement("diagnosis/sql/refresh_findings.sql")

WASTE = (
    "idle_certain",
    "idle_probable",
    "stalled_probable",
    "stalled_potential",
    "underused_potential",
)
COLUMNS = (
    "gpu_id", "start", "job_id", "cause", "confidence", "also", "cells", "held_ms",
    "idle_certain_ms", "idle_probable_ms",
    "stalled_probable_ms", "stalled_potential_ms", "underused_ms", "low_ms", "high_ms",
)  # fmt: skip
_STORED = f"""
SELECT id, node_id, {", ".join(COLUMNS)} FROM diagnosis_causeentry
WHERE node_id = ANY(%s) AND start >= %s AND start < %s
"""  # noqa: S608
_NO_FINDINGS_OF_JOBS = {*UNFIT, *OF_NODES}

Row = tuple[Any, ...]
Hours = dict[int, list[Row]]
Changed = set[tuple[int, str]]  # jobs and causes


def rows(
    tables: Mapping[int, cell_states.Table], lanes: Lanes, verdicts: Verdicts, cuts: Ints
) -> dict[int, Hours]:
    """Of each node rows of COLUMNS by clock hour, of the cells in its table; `cuts` are the edges
    of entries, ascending.

    A row is the time of one GPU, cut and job under one cause. Its savings are the recoverable
    share of the held time, and never more than what was wasted of it.
    """
    hours: dict[int, Hours] = {node_id: defaultdict(list) for node_id in tables}
    table = {
        name: np.concatenate([one[name] for one in tables.values()])
        for name in (*cell_states.KEYS, *cell_states.NAMES)
    }
    if len(table["start_ms"]) == 0:
        return hours
    node = np.repeat(np.arange(len(tables)), [len(one["start_ms"]) for one in tables.values()])
    row, cell = _places(table, lanes)
    cause = verdicts.cause[row, cell].astype(np.int64)
    cut = np.searchsorted(cuts, table["start_ms"], side="right") - 1
    # one key per node, GPU and job, cut and cause
    size = (len(tables), len(lanes.gpu_id), len(cuts), len(CAUSES))
    found, group = np.unique(
        np.ravel_multi_index((node, row, cut, cause), size), return_inverse=True
    )
    held = sum(table[name] for name in cell_states.NAMES)
    sums = [_sums(table[name], group) for name in WASTE]
    wasted = sum(sums)
    low, high = (
        np.minimum(_sums(held * share[row, cell], group), wasted)
        for share in (verdicts.low, verdicts.high)
    )
    sure = np.zeros(len(found), dtype=np.int64)
    np.maximum.at(sure, group, verdicts.confidence[row, cell].astype(np.int64))
    also, bits = np.zeros(len(found), dtype=np.int64), np.zeros(len(found), dtype=np.int64)
    np.bitwise_or.at(also, group, verdicts.also[row, cell])
    np.bitwise_or.at(bits, group, np.left_shift(1, table["start_ms"] % HOUR_MS // CELL_MS))
    node_of, lane, cut_of, cause_of = np.unravel_index(found, size)
    starts = [from_ms(int(start_ms)) for start_ms in cuts]
    names = {one: names_of(one) for one in np.unique(also).tolist()}
    node_ids, clock_hours = list(tables), (cuts // HOUR_MS * HOUR_MS).tolist()
    figures = (_sums(held, group), *sums, np.minimum(low, high), high)
    for to, at, gpu_id, job_id, number, level, other, cells, *ms in zip(
        node_of.tolist(), cut_of.tolist(), lanes.gpu_id[lane].tolist(), lanes.job_id[lane].tolist(),
        cause_of.tolist(),
        sure.tolist(), also.tolist(), bits.tolist(), *(one.tolist() for one in figures),
        strict=True,
    ):  # fmt: skip
        hours[node_ids[to]][clock_hours[at]].append(
            (gpu_id, starts[at], job_id, CAUSES[number], level, names[other], cells, *ms)
        )
    return hours


def names_of(bits: int) -> tuple[str, ...]:
    """The causes whose bit (1 << number) is set, in the table's order."""
    return tuple(cause for number, cause in enumerate(CAUSES) if bits >> number & 1)


def _places(table: cell_states.Table, lanes: Lanes) -> tuple[Ints, Ints]:
    """Lane and cell of each row of the table; the lanes are sorted by job and GPU."""
    jobs, gpus = np.unique(lanes.job_id), np.unique(lanes.gpu_id)

    def rank(job_id: Ints, gpu_id: Ints) -> Ints:
        return np.searchsorted(jobs, job_id) * len(gpus) + np.searchsorted(gpus, gpu_id)

    row = np.searchsorted(rank(lanes.job_id, lanes.gpu_id), rank(table["job_id"], table["gpu_id"]))
    return row, (table["start_ms"] - lanes.start_ms) // CELL_MS


def _sums(values: Any, group: Ints) -> Ints:
    return np.bincount(group, weights=values).astype(np.int64)


def replace(told: Mapping[int, Hours], start_ms: int, end_ms: int) -> Changed:
    """What changed in the clock hours of [start_ms, end_ms); of each node an hour that differs is
    written anew.
    """
    changed: Changed = set()
    days: set[tuple[int, date]] = set()
    gone: list[int] = []
    fresh: list[Row] = []
    stored = _stored(told, start_ms, end_ms)
    for node_id, hours in told.items():
        kept = stored.get(node_id, {})
        for hour in kept.keys() | hours.keys():
            old, new = kept.get(hour, []), hours.get(hour, [])
            if Counter(row for _, row in old) != Counter(new):
                gone += [pk for pk, _ in old]
                fresh += [(node_id, *row[:5], list(row[5]), *row[6:]) for row in new]
                changed |= {row[2:4] for row in (*(row for _, row in old), *new)}
                days.add((node_id, from_ms(hour).astimezone(UTC).date()))
    if gone:
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM diagnosis_causeentry WHERE id = ANY(%s)", [gone])
    copy_rows("diagnosis_causeentry", ("node_id", *COLUMNS), fresh)
    # every such day of every such node: a day too many is only summed again. Those that are not
    # summed too: who would sum one now (sums.py) passes it by, or was before us, and then without
    # these rows
    touched = DiagnosedDay.objects.filter(
        node_id__in={node for node, _ in days}, day__in={day for _, day in days}
    )
    touched.update(is_summed=False)
    return changed


def _stored(
    node_ids: Iterable[int], start_ms: int, end_ms: int
) -> Mapping[int, Mapping[int, list[tuple[int, Row]]]]:
    """Node -> clock hour -> its rows, each with its id."""
    found: dict[int, dict[int, list[tuple[int, Row]]]] = defaultdict(lambda: defaultdict(list))
    for pk, node_id, *row in fetched(_STORED, [list(node_ids), from_ms(start_ms), from_ms(end_ms)]):
        start: datetime = row[1]
        found[node_id][to_ms(start) // HOUR_MS * HOUR_MS].append(
            (pk, (*row[:5], tuple(row[5]), *row[6:]))
        )
    return found


def refresh_findings(changed: Changed) -> None:
    """Findings of these causes of jobs say what the causes say now; what people decided stays."""
    wanted = sorted(pair for pair in changed if pair[1] not in _NO_FINDINGS_OF_JOBS)
    if wanted:
        with connection.cursor() as cursor:
            cursor.execute(
                _REFRESH_FINDINGS,
                {"job_ids": [job for job, _ in wanted], "causes": [cause for _, cause in wanted]},
            )
