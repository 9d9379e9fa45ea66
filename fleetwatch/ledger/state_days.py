"""GPU time by hour and state, a node's day in one row: what maps of weeks read instead of a million
entries.

Derived from entries, and never read when older than they are: a row names the versions (NodeDay)
that it was made of.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import numpy as np
import zstandard
from numpy.typing import NDArray

from fleetwatch.inventory.models import GPU
from fleetwatch.ledger.judgement.observations import Ints
from fleetwatch.ledger.models import HOURS, StateDay
from fleetwatch.ledger.policy import SHOWN_STATES
from fleetwatch.lib.intervals import HOUR_MS, Interval, from_ms, to_ms
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import execute, read_statement

# a day that ended this long ago is posted; what still comes makes its row old, and it is made again
SETTLED = timedelta(minutes=10)
DAYS_AT_ONCE = 100  # of 8 GPUs: some 70,000 entries
DAYS_IN_MEMORY = 7  # of 10,000 GPUs: some 70 MB

# of states with equal time the first by name: the layout of a row, too
_ORDER = sorted(SHOWN_STATES)
_OF_DAY = (HOURS, len(SHOWN_STATES))
_GPU_BYTES = 8 + 4 * HOURS * len(SHOWN_STATES)

_STATE_HOURS = read_statement("ledger/sql/state_hours.sql")
_VERSIONS = read_statement("ledger/sql/state_day_versions.sql")
_STATE_DAYS = read_statement("ledger/sql/state_days.sql")
_OLD = read_statement("ledger/sql/old_state_days.sql")

# as state_hours.sql packs it
_RECORD = np.dtype([("gpu_id", ">i8"), ("hour", ">i4"), ("state", ">i4"), ("gpu_ms", ">i8")])

# GPU ids, and their milliseconds: GPUs x 24 hours x states in _ORDER
Spent = tuple[Ints, Ints]


@dataclass(frozen=True, slots=True)
class DayHours:
    """A UTC day of GPUs, hour by hour; one that moved is there once for each node."""

    starts_ms: Ints  # of its 24 hours
    gpu_ids: Ints
    spent_ms: Ints  # GPUs x hours x states

    @property
    def day(self) -> date:
        """Which it is."""
        return from_ms(int(self.starts_ms[0])).date()

    def of(self, states: Iterable[str]) -> Ints:
        """GPUs x hours: milliseconds in these of SHOWN_STATES together."""
        places = [_ORDER.index(state) for state in states]
        gpu_ms: Ints = self.spent_ms[:, :, places].sum(axis=2, dtype=np.int64)
        return gpu_ms


def refresh(now: datetime, limit: int) -> dict[str, int]:
    """How many node-days were made (again), the newest first, at most `limit`; days that are not
    over are read from entries.

    Safe twice and beside posting: versions are read before the entries, so what is posted meanwhile
    makes the row old.
    """
    until = (now - SETTLED).astimezone(UTC).date()
    old = execute(_OLD, {"until": until, "limit": limit})
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


def spent(gpu_ids: Sequence[int], interval: Interval, *, step_ms: int) -> Ints:
    """GPUs x steps x states in _ORDER: milliseconds. The interval and its steps begin at whole UTC
    hours.
    """
    total = np.zeros(
        (len(gpu_ids), interval.duration_ms // step_ms, len(SHOWN_STATES)), dtype=np.int64
    )
    places = dict(zip(gpu_ids, range(len(gpu_ids)), strict=True))
    node_ids = GPU.objects.filter(pk__in=gpu_ids).values_list("node_id", flat=True)
    for day in of_days(days_of(interval), node_ids=set(node_ids)):
        place = np.array(
            [places.get(gpu_id, -1) for gpu_id in day.gpu_ids.tolist()], dtype=np.int64
        )
        _add(total, place, day.spent_ms, (day.starts_ms - interval.start_ms) // step_ms)
    return total


def versions_of(days: Sequence[date]) -> dict[date, Decimal]:
    """Of each of these UTC days a number that is another one once any entry of it is; of one that
    no node has there is none.
    """
    return dict(fetched(_VERSIONS, {"days": list(days)}))


def shown_spent(gpu_ids: Sequence[int], interval: Interval) -> Ints:
    """As `spent` by the hour, its states in the order of SHOWN_STATES."""
    by_name = spent(gpu_ids, interval, step_ms=HOUR_MS)
    return by_name[:, :, [_ORDER.index(state) for state in SHOWN_STATES]]


def of_days(days: Sequence[date], *, node_ids: Collection[int] | None = None) -> Iterator[DayHours]:
    """Of these UTC days those of which there is something, in order: of a MIG GPU its instances'
    time counts; of these nodes' GPUs, None: of all. A week is in memory at a time.
    """
    for first in range(0, len(days), DAYS_IN_MEMORY):
        read = _read(days[first : first + DAYS_IN_MEMORY], node_ids)
        for day, of_nodes in sorted(read.items()):
            ids, hours = map(np.concatenate, zip(*of_nodes, strict=True))
            yield DayHours(hours_of(day), ids, hours)


def most(spent_ms: Ints) -> Ints:
    """The position in SHOWN_STATES of the state with the most time; -1 where there is none."""
    positions = np.array([SHOWN_STATES.index(state) for state in _ORDER])
    return np.where(spent_ms.any(axis=2), positions[spent_ms.argmax(axis=2)], -1)


def hours_of(day: date) -> Ints:
    """When the hours of a UTC day begin."""
    midnight_ms = to_ms(datetime.combine(day, time(), tzinfo=UTC))
    return midnight_ms + np.arange(HOURS) * HOUR_MS


def days_of(interval: Interval) -> list[date]:
    """The UTC days that it touches."""
    first = interval.start.astimezone(UTC).date()
    last = (interval.end - timedelta(milliseconds=1)).astimezone(UTC).date()
    return [first + timedelta(days=more) for more in range((last - first).days + 1)]


def _add(total: Ints, place: Ints, hours: Ints, step: Ints) -> None:
    """Adds a day's hours to the steps in which they lie, of the GPUs that have a place (not -1)."""
    placed = np.flatnonzero(place >= 0)
    inside = np.flatnonzero((step >= 0) & (step < total.shape[1]))
    if not len(placed) or not len(inside):
        return
    steps, starts = np.unique(step[inside], return_index=True)
    is_whole = len(placed) == len(place) and len(inside) == len(step)
    within = hours if is_whole else hours[np.ix_(placed, inside)]
    _add_at(total, place[placed], steps, _summed(within, starts))


def _summed(hours: Ints, starts: Ints) -> Ints:
    """GPUs x steps x states of GPUs x hours x states: each step begins with that hour."""
    size, rest = divmod(hours.shape[1], len(starts))
    sums: Ints
    if rest or (starts != np.arange(len(starts)) * size).any():
        sums = np.add.reduceat(hours, starts, axis=1, dtype=np.int64)
        return sums
    # a third of the time; a day of a GPU is far below the 2^32 milliseconds that an hour may have
    steps = hours.reshape(len(hours), len(starts), size, hours.shape[2])
    sums = np.einsum("gshk->gsk", steps).astype(np.int64)
    return sums


def _add_at(total: Ints, rows: Ints, steps: Ints, sums: Ints) -> None:
    if len(np.unique(rows)) == len(rows):
        total[rows[:, None], steps] += sums
    else:  # a GPU that moved is in two nodes' rows of the day
        np.add.at(total, (rows[:, None], steps[None, :]), sums)


def _read(days: Sequence[date], node_ids: Collection[int] | None) -> dict[date, list[Spent]]:
    """Of each day what the nodes spent, from the kept rows and, where these are old, from
    entries.
    """
    by_day: dict[date, list[Spent]] = defaultdict(list)
    open_days = []
    decompressor = zstandard.ZstdDecompressor()
    asked = {"days": list(days), "node_ids": None if node_ids is None else list(node_ids)}
    for node_id, day, packed in fetched(_STATE_DAYS, asked):
        if packed is None:
            open_days.append((node_id, day))
        else:
            by_day[day].append(_unpack(decompressor.decompress(packed)))
    for (_, day), spent in _from_entries(open_days).items():
        by_day[day].append(spent)
    return by_day


def _from_entries(days: Iterable[tuple[int, date]]) -> dict[tuple[int, date], Spent]:
    """Of each node and day its GPUs' hours by state, from the entries."""
    by_day = {key: _spent(np.zeros(0, dtype=_RECORD)) for key in days}
    starts = [datetime.combine(day, time(), tzinfo=UTC) for _, day in by_day]
    asked = {"node_ids": [node_id for node_id, _ in by_day], "starts": starts, "states": _ORDER}
    for node_id, start, packed in fetched(_STATE_HOURS, asked):
        key = (node_id, start.astimezone(UTC).date())
        by_day[key] = _spent(np.frombuffer(packed, dtype=_RECORD))
    return by_day


def _spent(records: NDArray[np.void]) -> Spent:
    """Of the GPUs that the records name."""
    ids, row = np.unique(records["gpu_id"].astype(np.int64), return_inverse=True)
    hours = np.zeros((len(ids), *_OF_DAY), dtype=np.int64)
    hours[row, records["hour"], records["state"] - 1] = records["gpu_ms"]
    return ids, hours


def _pack(spent: Spent) -> bytes:
    ids, hours = spent
    return zstandard.ZstdCompressor().compress(
        ids.astype("<i8").tobytes() + hours.astype("<u4").tobytes()
    )


def _unpack(data: bytes) -> Spent:
    count = len(data) // _GPU_BYTES
    ids = np.frombuffer(data, dtype="<i8", count=count)
    hours = np.frombuffer(data, dtype="<u4", offset=ids.nbytes)
    return ids, hours.reshape(count, *_OF_DAY)
