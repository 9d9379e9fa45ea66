"""Rows of causes: made from verdicts and the ledger's cells, compared with what is stored, replaced
whole by the hour.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from fleetwatch.diagnosis.causes import OF_NODES, UNFIT
from fleetwatch.diagnosis.judgement.lanes import Lanes
from fleetwatch.diagnosis.judgement.verdicts import CAUSES, Verdicts
from fleetwatch.diagnosis.models import DiagnosedDay
from fleetwatch.ledger.hour_rows import copy_rows
from fleetwatch.ledger.judgement import cell_states
from fleetwatch.ledger.judgement.cell_states import CELL_MS
from fleetwatch.ledger.judgement.observations import Ints
from fleetwatch.lib.intervals import HOUR_MS, floor_hour_ms, from_ms, to_ms
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import execute, read_statement

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
    if not any(len(table["start_ms"]) for table in tables.values()):
        return hours
    starts = [from_ms(start_ms) for start_ms in cuts.tolist()]
    names = cache(names_of)
    columns = _columns(tables, lanes, verdicts, cuts)
    for node_id, hour, gpu_id, cut, job_id, cause, level, other, *figures in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        hours[node_id][hour].append(
            (gpu_id, starts[cut], job_id, CAUSES[cause], level, names(other), *figures)
        )
    return hours


def _columns(
    tables: Mapping[int, cell_states.Table], lanes: Lanes, verdicts: Verdicts, cuts: Ints
) -> list[Ints]:
    """Of what becomes one row the node, clock hour, GPU, place of the cut, job, number of the
    cause, and the figures.
    """
    table = cell_states.together([*tables.values()])
    node = _nodes(tables)
    at = _places(table, lanes)
    cut = np.searchsorted(cuts, table["start_ms"], side="right") - 1
    # one key per GPU and job, cut and cause
    keys = (at[0] * len(cuts) + cut) * len(CAUSES) + verdicts.cause[at]
    distinct, first, group = np.unique(keys, return_index=True, return_inverse=True)
    columns = (node, cuts[cut] // HOUR_MS * HOUR_MS, table["gpu_id"], cut, table["job_id"])
    return [
        *(column[first] for column in columns),
        distinct % len(CAUSES),
        *_figures(table, verdicts, at, group),
    ]


def _nodes(tables: Mapping[int, cell_states.Table]) -> Ints:
    """Of each row of the tables, one after the other."""
    return np.repeat([*tables], [len(table["start_ms"]) for table in tables.values()])


_Places = tuple[Ints, Ints]  # lane and cell


def _facts(table: cell_states.Table, verdicts: Verdicts, at: _Places, group: Ints) -> list[Ints]:
    """Of each group how sure it is at most, the bits of what else is possible, and of its cells."""
    cells = np.left_shift(1, table["start_ms"] % HOUR_MS // CELL_MS)
    facts = []
    for most, values in (
        (np.maximum, verdicts.confidence[at].astype(np.int64)),
        (np.bitwise_or, verdicts.also[at]),
        (np.bitwise_or, cells),
    ):
        of_group = np.zeros(group.max() + 1, dtype=np.int64)
        most.at(of_group, group, values)
        facts.append(of_group)
    return facts


def _figures(table: cell_states.Table, verdicts: Verdicts, at: _Places, group: Ints) -> list[Ints]:
    """Of each group its facts, and what was held, wasted, and could be saved."""
    held = sum(table[name] for name in cell_states.NAMES)
    waste = [_sums(table[name], group) for name in WASTE]
    low, high = (
        np.minimum(_sums(held * share[at], group), sum(waste))
        for share in (verdicts.low, verdicts.high)
    )
    facts = _facts(table, verdicts, at, group)
    return [*facts, _sums(held, group), *waste, np.minimum(low, high), high]


def names_of(bits: int) -> tuple[str, ...]:
    """The causes whose bit (1 << number) is set, in the table's order."""
    return tuple(cause for number, cause in enumerate(CAUSES) if bits >> number & 1)


def _places(table: cell_states.Table, lanes: Lanes) -> _Places:
    """Lane and cell of each row of the table; the lanes are sorted by job and GPU."""
    jobs = np.unique(lanes.job_id)
    gpus = np.unique(lanes.gpu_id)

    def rank(job_id: Ints, gpu_id: Ints) -> Ints:
        return np.searchsorted(jobs, job_id) * len(gpus) + np.searchsorted(gpus, gpu_id)

    row = np.searchsorted(rank(lanes.job_id, lanes.gpu_id), rank(table["job_id"], table["gpu_id"]))
    return row, (table["start_ms"] - lanes.start_ms) // CELL_MS


def _sums(values: Any, group: Ints) -> Ints:
    return np.bincount(group, weights=values).astype(np.int64)


def replace(nodes: Mapping[int, Hours], start_ms: int, end_ms: int) -> Changed:
    """What changed in the clock hours of [start_ms, end_ms); of each node an hour that differs is
    written anew.
    """
    differing = list(_differing(nodes, start_ms, end_ms))
    gone = [pk for _, _, old, _ in differing for pk in old]
    if gone:
        execute("DELETE FROM diagnosis_causeentry WHERE id = ANY(%s)", [gone])
    fresh = [
        (node_id, *row[:5], list(row[5]), *row[6:])
        for node_id, _, _, new in differing
        for row in new
    ]
    copy_rows("diagnosis_causeentry", ("node_id", *COLUMNS), fresh)
    _sum_again([(node_id, hour) for node_id, hour, *_ in differing])
    return {row[2:4] for _, _, old, new in differing for row in (*old.values(), *new)}


def _differing(
    nodes: Mapping[int, Hours], start_ms: int, end_ms: int
) -> Iterator[tuple[int, int, dict[int, Row], list[Row]]]:
    """Node, clock hour, its stored rows by id and those that it should have, where these differ."""
    stored = _stored(nodes, start_ms, end_ms)
    for node_id, hours in nodes.items():
        for hour in stored[node_id].keys() | hours.keys():
            old = stored[node_id][hour]
            new = hours.get(hour, [])
            if Counter(old.values()) != Counter(new):
                yield node_id, hour, old, new


def _sum_again(hours: Sequence[tuple[int, int]]) -> None:
    """Every such day of every such node: a day too many is only summed again. Those that are not
    summed too: who would sum one now (sums.py) passes it by, or was before us, and then without
    these rows.
    """
    touched = DiagnosedDay.objects.filter(
        node_id__in={node_id for node_id, _ in hours},
        day__in={from_ms(hour).date() for _, hour in hours},
    )
    touched.update(is_summed=False)


def _stored(
    node_ids: Iterable[int], start_ms: int, end_ms: int
) -> Mapping[int, Mapping[int, dict[int, Row]]]:
    """Node -> clock hour -> its rows by id; none of others."""
    stored: dict[int, dict[int, dict[int, Row]]] = defaultdict(lambda: defaultdict(dict))
    for pk, node_id, *row in fetched(_STORED, [list(node_ids), from_ms(start_ms), from_ms(end_ms)]):
        hour = floor_hour_ms(to_ms(row[1]))
        stored[node_id][hour][pk] = (*row[:5], tuple(row[5]), *row[6:])
    return stored


def refresh_findings(changed: Changed) -> None:
    """Findings of these causes of jobs say what the causes say now; what people decided stays."""
    wanted = sorted(pair for pair in changed if pair[1] not in _NO_FINDINGS_OF_JOBS)
    if wanted:
        job_ids, causes = (list(column) for column in zip(*wanted, strict=True))
        execute(_REFRESH_FINDINGS, {"job_ids": job_ids, "causes": causes})
