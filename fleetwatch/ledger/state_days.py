"""GPU time by hour and state, a node's day in one row: what maps of weeks read instead of a million
entries.

Derived from entries, and never read when older than they are: a row names the versions (NodeDay)
that it was made of.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import numpy as np
import zstandard
from django.db import connection

from fleetwatch.ledger.judgement.observations import Ints
from fleetwatch.ledger.models import StateDay
from fleetwatch.ledger.policy import SHOWN_STATES
from fleetwatch.lib.intervals import HOUR_MS, Interval, to_ms
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

HOURS = 24
DAY_MS = HOURS * HOUR_MS
# a day that ended this long ago is posted; what still comes makes its row old, and it is made again
SETTLED = timedelta(minutes=10)
DAYS_AT_ONCE = 100  # of 8 GPUs: some 70,000 entries

# of states with equal time the first by name: the layout of a row, too
_ORDER = sorted(SHOWN_STATES)
_PLACE = {state: place for place, state in enumerate(_ORDER)}
_ID_BYTES, _CELL_BYTES = 8, 4
_GPU_BYTES = _ID_BYTES + HOURS * len(SHOWN_STATES) * _CELL_BYTES

_STATE_HOURS = read_statement("ledger/sql/state_hours.sql")
_STATE_DAYS = read_statement("ledger/sql/state_days.sql").replace("%(days)s", "%s")
_OLD = read_statement("ledger/sql/old_state_days.sql")

# GPU ids, and their milliseconds: GPUs x 24 hours x states in _ORDER
Spent = tuple[Ints, Ints]


def refresh(now: datetime, limit: int) -> dict[str, int]:
    """How many node-days were made (again), the newest first, at most `limit`; days that are not
    over are read from entries.

    Safe twice and beside posting: versions are read before the entries, so what is posted meanwhile
    makes the row old.
    """
    with connection.cursor() as cursor:
        cursor.execute(_OLD, {"until": (now - SETTLED).astimezone(UTC).date(), "limit": limit})
        old = cursor.fetchall()
    for first in range(0, len(old), DAYS_AT_ONCE):
        some = old[first : first + DAYS_AT_ONCE]
        spent = _from_entries([(node_id, day) for node_id, day, _ in some])
        rows = [
            StateDay(node_id=node_id, day=day, versions=versions, spent=_pack(spent[node_id, day]))
            for node_id, day, versions in some
        ]
        StateDay.objects.bulk_create(
            rows,
            update_conflicts=True,
            unique_fields=["node", "day"],
            update_fields=["versions", "spent"],
        )
    return {"state_days": len(old)}


def dominant(gpu_ids: Sequence[int], interval: Interval, *, step_ms: int) -> Ints:
    """GPUs x steps: position in SHOWN_STATES of the state that took most of the step, -1 where the
    ledger says nothing.

    The interval and its steps begin at whole UTC hours. Of a MIG GPU its instances' time counts.
    """
    count = interval.duration_ms // step_ms
    places = {gpu_id: place for place, gpu_id in enumerate(gpu_ids)}
    total = np.zeros((len(gpu_ids), count, len(SHOWN_STATES)), dtype=np.int64)
    first, last = (
        interval.start.astimezone(UTC).date(),
        (interval.end - timedelta(milliseconds=1)).astimezone(UTC).date(),
    )
    for day, spent in _read(
        [first + timedelta(days=more) for more in range((last - first).days + 1)]
    ).items():
        ids, hours = (
            np.concatenate([ids for ids, _ in spent]),
            np.concatenate([ms for _, ms in spent]),
        )
        _add(
            total,
            ids,
            hours,
            places=places,
            first_ms=_midnight_ms(day) - interval.start_ms,
            step_ms=step_ms,
        )
    positions = np.array([SHOWN_STATES.index(state) for state in _ORDER])
    return np.where(total.any(axis=2), positions[total.argmax(axis=2)], -1)


def _add(
    total: Ints, ids: Ints, hours: Ints, *, places: dict[int, int], first_ms: int, step_ms: int
) -> None:
    """Adds a day's hours, the first of them `first_ms` after the first step begins, to the steps in
    which they lie.
    """
    place = np.array([places.get(gpu_id, -1) for gpu_id in ids.tolist()], dtype=np.int64)
    step = (first_ms + np.arange(HOURS) * HOUR_MS) // step_ms
    known, inside = (
        np.flatnonzero(place >= 0),
        np.flatnonzero((step >= 0) & (step < total.shape[1])),
    )
    if not len(known) or not len(inside):
        return
    steps, starts = np.unique(step[inside], return_index=True)
    sums = np.add.reduceat(hours[np.ix_(known, inside)], starts, axis=1, dtype=np.int64)
    # a GPU that moved is in two nodes' rows of the day
    np.add.at(total, (place[known][:, None], steps[None, :]), sums)


def _read(days: Sequence[date]) -> dict[date, list[Spent]]:
    """Of each day what its nodes spent, from the kept rows and, where these are old, from
    entries.
    """
    found: dict[date, list[Spent]] = defaultdict(list)
    open_days = []
    decompressor = zstandard.ZstdDecompressor()
    for node_id, day, packed in fetched(_STATE_DAYS, [list(days)]):
        if packed is None:
            open_days.append((node_id, day))
        else:
            found[day].append(_unpack(decompressor.decompress(packed)))
    for (_, day), spent in _from_entries(open_days).items():
        found[day].append(spent)
    return {day: spent for day, spent in found.items() if spent}


def _from_entries(days: Iterable[tuple[int, date]]) -> dict[tuple[int, date], Spent]:
    """Of each node and day its GPUs' hours by state, from the entries."""
    rows: dict[tuple[int, date], list[Any]] = {key: [] for key in days}
    starts = [datetime.combine(day, time(), tzinfo=UTC) for _, day in rows]
    with connection.cursor() as cursor:
        cursor.execute(
            _STATE_HOURS, {"node_ids": [node_id for node_id, _ in rows], "starts": starts}
        )
        for node_id, start, *told in cursor.fetchall():
            rows[node_id, start.date()].append(told)
    return {key: _spent(told) for key, told in rows.items()}


def _spent(told: Sequence[tuple[int, int, str, int]]) -> Spent:
    ids = sorted({gpu_id for gpu_id, *_ in told})
    place = {gpu_id: row for row, gpu_id in enumerate(ids)}
    hours = np.zeros((len(ids), HOURS, len(SHOWN_STATES)), dtype=np.int64)
    for gpu_id, hour, state, gpu_ms in told:
        hours[place[gpu_id], hour, _PLACE[state]] = gpu_ms
    return np.array(ids, dtype=np.int64), hours


def _pack(spent: Spent) -> bytes:
    ids, hours = spent
    return zstandard.ZstdCompressor().compress(
        ids.astype("<i8").tobytes() + hours.astype("<u4").tobytes()
    )


def _unpack(data: bytes) -> Spent:
    count = len(data) // _GPU_BYTES
    ids = np.frombuffer(data, dtype="<i8", count=count)
    return ids, np.frombuffer(data, dtype="<u4", offset=count * _ID_BYTES).reshape(
        count, HOURS, len(SHOWN_STATES)
    )


def _midnight_ms(day: date) -> int:
    return to_ms(datetime.combine(day, time(), tzinfo=UTC))
