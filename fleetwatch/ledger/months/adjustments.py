"""Adjustments: what closed hours are judged to be now, less what was closed and what was adjusted
before.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fleetwatch.ledger import hour_rows, run_rows
from fleetwatch.ledger.hour_rows import Row
from fleetwatch.ledger.judgement.observations import Judgement
from fleetwatch.ledger.models import Adjustment, Entry
from fleetwatch.ledger.months.policy_plan import Frontier, Piece
from fleetwatch.lib.intervals import floor_hour_ms, from_ms, to_ms

# Why a closed hour is judged otherwise: the first that its numbers show.
CAUSES = (
    "capacity changed", "late data", "outage changed", "allocation changed", "judged anew",
)  # fmt: skip
CAPACITY, LATE_DATA, OUTAGE, ALLOCATION, JUDGEMENT = CAUSES

# Joules are sums of floats: adding what was subtracted gives them back to this, which no meter
# resolves.
NO_ENERGY_J = 1e-6
NO_ENERGY_RATIO = 1e-9

# An entry without its amounts, and whether its energy was read.
Key = tuple[Any, ...]
Amounts = dict[Key, tuple[int, float]]
_GPU, _START, _JOB, _STATE = range(4)
_KEY = len(hour_rows.ENTRY_COLUMNS) - 2


@dataclass(frozen=True, slots=True)
class Books:
    """Where a node's hours are written: entries of a policy where open, adjustments before
    `closed_ms`.
    """

    node_id: int
    policy_id: int
    closed_ms: int
    booked_at: datetime


def books(node_id: int, policy_id: int, closed: Frontier, *, now: datetime) -> Books:
    """Those of now; what corrects a closed month is booked after its end."""
    booked_at = max(now, from_ms(closed.until_ms)) if closed.months else now
    return Books(node_id, policy_id, closed.until_ms, booked_at)


def book(node_id: int, piece: Piece, judged: Judgement, *, booked_at: datetime) -> dict[str, int]:
    """How many adjustments were written for a closed piece, and what changed of its runs.

    Twice is once: what was booked counts as written.
    """
    bounds = (piece.start_ms, piece.end_ms)
    runs = hour_rows.replace_runs({node_id: judged}, *bounds)[node_id]
    rows = differences(node_id, piece, judged)
    write(node_id, rows, booked_at=booked_at)
    hours = {floor_hour_ms(to_ms(row[_START])) for row in rows} | runs.keys()
    return {"changed": len(hours), "runs": run_rows.count_parts(runs), "adjustments": len(rows)}


def write(node_id: int, rows: Sequence[Row], *, booked_at: datetime) -> None:
    """Appends signed rows of ENTRY_COLUMNS as adjustments, each with its cause."""
    by_cut: dict[tuple[int, datetime], list[Row]] = defaultdict(list)
    for row in rows:
        by_cut[row[_GPU], row[_START]].append(row)
    columns = ("node_id", *hour_rows.ENTRY_COLUMNS, "cause", "booked_at")
    values = (
        (node_id, *row, _cause(of_cut), booked_at) for of_cut in by_cut.values() for row in of_cut
    )
    hour_rows.copy_rows("ledger_adjustment", columns, values)


def differences(node_id: int, piece: Piece, judged: Judgement) -> list[Row]:
    """What the judgement says of the piece beyond entries and adjustments, as signed rows of
    ENTRY_COLUMNS.
    """
    bounds = (piece.start_ms, piece.end_ms)
    judged_sums = _summed(hour_rows.entry_rows(judged, piece.policy_id, within=bounds))
    stored_sums = _summed(_stored(node_id, *map(from_ms, bounds)))
    rows = []
    for key in sorted(judged_sums.keys() | stored_sums.keys(), key=repr):
        *facts, is_read = key
        gpu_ms, energy_j = judged_sums[key]
        stored_ms, stored_j = stored_sums[key]
        more_ms = gpu_ms - stored_ms
        more_j = energy_j - stored_j
        if more_ms or abs(more_j) > NO_ENERGY_J + NO_ENERGY_RATIO * abs(energy_j):
            rows.append((*facts, more_ms, more_j if is_read else None))
    return rows


def _stored(node_id: int, start: datetime, end: datetime) -> Iterator[Row]:
    """The node's entries and adjustments of these cuts, as rows of ENTRY_COLUMNS."""
    for model in (Entry, Adjustment):
        rows = model._default_manager.filter(node_id=node_id, start__gte=start, start__lt=end)
        yield from rows.values_list(*hour_rows.ENTRY_COLUMNS)


def _summed(rows: Iterable[Row]) -> Amounts:
    """Milliseconds and joules by key; nothing of what no row has."""
    sums: Amounts = defaultdict(lambda: (0, 0.0))
    for *facts, gpu_ms, energy_j in rows:
        key = (*facts, energy_j is not None)
        sum_ms, sum_j = sums[key]
        sums[key] = (sum_ms + gpu_ms, sum_j + (energy_j or 0.0))
    return sums


def _cause(rows: Iterable[Row]) -> str:
    """What the signed milliseconds of a GPU and cut show to have changed."""
    by_state: dict[str, int] = defaultdict(int)
    by_job: dict[int | None, int] = defaultdict(int)
    for row in rows:
        by_state[row[_STATE]] += row[_KEY]
        by_job[row[_JOB]] += row[_KEY]
    if sum(by_state.values()):
        return CAPACITY
    if by_state["unavailable"]:
        return OUTAGE
    if by_state["unobserved"]:
        return LATE_DATA
    return ALLOCATION if any(by_job.values()) else JUDGEMENT
