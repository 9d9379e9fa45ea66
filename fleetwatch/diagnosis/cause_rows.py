"""Rows of causes: made from verdicts and the ledger's cells, compared with what is stored, and
written where they differ.
"""

from collections.abc import Sequence
from datetime import UTC
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetwatch.diagnosis.cause_totals import FIGURES, WASTE
from fleetwatch.diagnosis.causes import OF_NODES, SLOWED, UNFIT
from fleetwatch.diagnosis.judgement.lanes import Lanes
from fleetwatch.diagnosis.judgement.rules import Levels
from fleetwatch.diagnosis.judgement.verdicts import CAUSES, NUMBER, Verdicts
from fleetwatch.diagnosis.models import DiagnosedDay
from fleetwatch.ledger.hour_rows import copy_rows
from fleetwatch.ledger.judgement import cell_states
from fleetwatch.ledger.judgement.cell_states import CELL_MS
from fleetwatch.ledger.judgement.observations import Ints
from fleetwatch.lib.intervals import HOUR_MS, from_ms
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import execute, read_statement

_REFRESH_FINDINGS = read_statement("diagnosis/sql/refresh_findings.sql")

COLUMNS = (
    "node_id", "gpu_id", "start", "job_id", "cause", "confidence", "also", "cells",
    *(f"{name}_ms" for name in FIGURES), "clock_lost_ms",
)  # fmt: skip
# causes that are possible too as the database writes an array: so rows are compared and copied
_STORED = f"""
SELECT id, {", ".join(COLUMNS).replace(" also,", " also::text,")}
FROM diagnosis_causeentry
WHERE node_id = ANY(%s) AND start >= %s AND start < %s
"""  # noqa: S608
_NO_FINDINGS_OF_JOBS = {*UNFIT, *OF_NODES}

Row = tuple[Any, ...]
Changed = set[tuple[int, str]]  # jobs and causes
_Places = tuple[Ints, Ints]  # lane and cell


def rows(table: cell_states.Table, lanes: Lanes, verdicts: Verdicts, cuts: Ints) -> list[Row]:
    """Rows of COLUMNS, of the cells in the table, which names their nodes; `cuts` are the edges of
    entries, ascending.

    A row is the time of one GPU, cut and job under one cause. Its savings are the recoverable
    share of the held time, and never more than what was wasted of it; what a lower clock cost is
    all of that share.
    """
    starts = [from_ms(start_ms) for start_ms in cuts.tolist()]
    also = cache(array_of_causes)
    columns = _columns(table, lanes, verdicts, cuts)
    return [
        (node_id, gpu_id, starts[cut], job_id, CAUSES[cause], level, also(other), *figures)
        for node_id, gpu_id, cut, job_id, cause, level, other, *figures in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]


def _columns(
    table: cell_states.Table, lanes: Lanes, verdicts: Verdicts, cuts: Ints
) -> list[NDArray[Any]]:
    """Of what becomes one row the node, GPU, place of the cut, job, number of the cause, and the
    figures.
    """
    at = _places(table, lanes)
    cut = np.searchsorted(cuts, table["start_ms"], side="right") - 1
    cause = verdicts.cause[at]
    # one key per GPU and job, cut and cause
    key = (at[0] * len(cuts) + cut) * len(CAUSES) + cause
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    columns = (table["node_id"], table["gpu_id"], cut, table["job_id"], cause)
    figures = [*_figures(table, verdicts, at, group), _clock_lost(table, verdicts, at, group)]
    return [column[first] for column in columns] + figures


def _figures(table: cell_states.Table, verdicts: Verdicts, at: _Places, group: Ints) -> list[Ints]:
    """Of each group how sure it is at most, the bits of what else is possible, and of its cells;
    what was held, wasted, and could be saved.
    """
    held = _held(table)
    waste = [_sums(table["_".join(label)], group) for label in WASTE.values()]
    low, high = (
        np.minimum(_sums(held * share[at], group), sum(waste))
        for share in (verdicts.low, verdicts.high)
    )
    cells = np.left_shift(1, table["start_ms"] % HOUR_MS // CELL_MS)
    return [
        _together(np.maximum, verdicts.confidence[at], group),
        _together(np.bitwise_or, verdicts.also[at], group),
        _together(np.bitwise_or, cells, group),
        _sums(held, group),
        *waste,
        np.minimum(low, high),
        high,
    ]


def _clock_lost(
    table: cell_states.Table, verdicts: Verdicts, at: _Places, group: Ints
) -> NDArray[Any]:
    """Of each group of slowed cells what the clock cost at most, though most of it was busy; None
    of other causes.
    """
    is_slowed = (verdicts.cause[at] == NUMBER[SLOWED]).astype(np.int64)
    lost = _sums(_held(table) * verdicts.high[at], group).astype(object)
    lost[_together(np.maximum, is_slowed, group) == 0] = None
    return lost


def _held(table: cell_states.Table) -> Ints:
    held: Ints = np.sum([table[name] for name in cell_states.NAMES], axis=0)
    return held


def _together(joined: np.ufunc, values: Ints | Levels, group: Ints) -> Ints:
    of_group = np.zeros(group.max(initial=-1) + 1, dtype=np.int64)
    joined.at(of_group, group, values)
    return of_group


def array_of_causes(bits: int) -> str:
    """The causes whose bit (1 << number) is set, in the table's order, as the database writes an
    array.
    """
    return f"{{{','.join(cause for number, cause in enumerate(CAUSES) if bits >> number & 1)}}}"


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


def replace(rows: Sequence[Row], node_ids: Sequence[int], start_ms: int, end_ms: int) -> Changed:
    """The jobs and causes whose rows changed in the nodes' hours of [start_ms, end_ms), in which
    these rows alone are stored now; a row that was stored as it should be stays.
    """
    missing = set(rows)
    gone: dict[int, Row] = {}
    for pk, *columns in fetched(_STORED, [list(node_ids), from_ms(start_ms), from_ms(end_ms)]):
        row = tuple(columns)
        if row in missing:
            missing.remove(row)
        else:
            gone[pk] = row
    if gone:
        execute("DELETE FROM diagnosis_causeentry WHERE id = ANY(%s)", [list(gone)])
    copy_rows("diagnosis_causeentry", COLUMNS, (row for row in rows if row in missing))
    changed = [*gone.values(), *missing]
    _sum_again(changed)
    return {row[3:5] for row in changed}


def _sum_again(changed: Sequence[Row]) -> None:
    """Every such day of every such node: a day too many is only summed again. Those that are not
    summed too: who would sum one now (sums.py) passes it by, or was before us, and then without
    these rows.
    """
    touched = DiagnosedDay.objects.filter(
        node_id__in={row[0] for row in changed},
        day__in={row[2].astimezone(UTC).date() for row in changed},
    )
    touched.update(is_summed=False)


def refresh_findings(changed: Changed) -> None:
    """Findings of these causes of jobs say what the causes say now; what people decided stays."""
    wanted = sorted(pair for pair in changed if pair[1] not in _NO_FINDINGS_OF_JOBS)
    if wanted:
        job_ids, causes = (list(column) for column in zip(*wanted, strict=True))
        execute(_REFRESH_FINDINGS, {"job_ids": job_ids, "causes": causes})
