"""Adjustments: what closed hours are judged to be now, less what was closed and what was adjusted
before.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fleetwatch.ledger import hour_rows
from fleetwatch.ledger.judgement.observations import Judgement
from fleetwatch.ledger.models import Adjustment
from fleetwatch.ledger.months.policy_plan import Frontier, Piece
from fleetwatch.lib.intervals import HOUR_MS, from_ms, to_ms

# Why a closed hour is judged otherwise: the first that its numbers show.
CAPACITY, LATE_DATA, OUTAGE, ALLOCATION, JUDGEMENT = (
    "capacity changed", "late data", "outage changed", "allocation changed", "judged anew",
)  # fmt: skip
CAUSES = (CAPACITY, LATE_DATA, OUTAGE, ALLOCATION, JUDGEMENT)

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

    Twice is once: what was booked counts as said.
    """
    parts = hour_rows.replace_runs(node_id, piece.start_ms, piece.end_ms, judged)
    found = _rows(differences(node_id, piece, judged))
    write(node_id, found, booked_at=booked_at)
    hours = {to_ms(row[_START]) // HOUR_MS for row in found} | {hour // HOUR_MS for hour in parts}
    return {"changed": len(hours), "runs": sum(map(len, parts.values())), "adjustments": len(found)}


def write(node_id: int, rows: Iterable[hour_rows.Row], *, booked_at: datetime) -> None:
    """Appends signed rows of ENTRY_COLUMNS as adjustments, each with its cause."""
    signed = list(rows)
    causes = _causes(signed)
    columns = ("node_id", *hour_rows.ENTRY_COLUMNS, "cause", "booked_at")
    values = ((node_id, *row, causes[row[_GPU], row[_START]], booked_at) for row in signed)
    hour_rows.copy_rows("ledger_adjustment", columns, values)


def differences(node_id: int, piece: Piece, judged: Judgement) -> Amounts:
    """By key, what the judgement says of the piece beyond entries and adjustments."""
    start_ms, end_ms = piece.start_ms, piece.end_ms
    wanted = _summed(
        row
        for rows in hour_rows.entry_rows(
            judged, piece.policy_id, within=(start_ms, end_ms)
        ).values()
        for row in rows
    )
    booked = Adjustment.objects.filter(
        node_id=node_id, start__gte=from_ms(start_ms), start__lt=from_ms(end_ms)
    )
    said = _summed(
        row for rows in hour_rows.stored_entries(node_id, start_ms, end_ms).values() for row in rows
    )
    said = _summed(booked.values_list(*hour_rows.ENTRY_COLUMNS), said)
    found: Amounts = {}
    for key in sorted(wanted.keys() | said.keys(), key=repr):
        (gpu_ms, energy_j), (said_ms, said_j) = wanted.get(key, (0, 0.0)), said.get(key, (0, 0.0))
        more_ms, more_j = gpu_ms - said_ms, energy_j - said_j
        if more_ms or abs(more_j) > NO_ENERGY_J + NO_ENERGY_RATIO * abs(energy_j):
            found[key] = (more_ms, more_j)
    return found


def _summed(rows: Iterable[hour_rows.Row], onto: Amounts | None = None) -> Amounts:
    """Milliseconds and joules by key."""
    sums: Amounts = defaultdict(lambda: (0, 0.0), onto or {})
    for row in rows:
        gpu_ms, energy_j = row[_KEY:]
        key = (*row[:_KEY], energy_j is not None)
        known_ms, known_j = sums[key]
        sums[key] = (known_ms + gpu_ms, known_j + (energy_j or 0.0))
    return sums


def _rows(found: Amounts) -> list[hour_rows.Row]:
    return [
        (*key[:-1], gpu_ms, energy_j if key[-1] else None)
        for key, (gpu_ms, energy_j) in found.items()
    ]


def _causes(rows: Iterable[hour_rows.Row]) -> dict[tuple[int, datetime], str]:
    """(GPU, cut) -> what the signed milliseconds there show to have changed."""
    by_cut: dict[tuple[int, datetime], list[hour_rows.Row]] = defaultdict(list)
    for row in rows:
        by_cut[row[_GPU], row[_START]].append(row)
    return {at: _cause(several) for at, several in by_cut.items()}


def _cause(rows: list[hour_rows.Row]) -> str:
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
