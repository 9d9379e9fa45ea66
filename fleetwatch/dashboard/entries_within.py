"""What of each entry of the ledger lies in a period: an entry is of a whole clock hour, of which a
period may begin or end in the middle.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from fleetwatch.accounts.selectors import zone
from fleetwatch.dashboard.shown_states import shown_state
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.selectors import Scope
from fleetwatch.figures.totals import UNALLOCATED
from fleetwatch.ledger.hour_cuts import cut_of, edges
from fleetwatch.ledger.judgement.shares import largest_remainder
from fleetwatch.ledger.models import Adjustment, Entry
from fleetwatch.lib.intervals import HOUR_MS, Interval, floor_hour_ms, from_ms, to_ms

Row = Entry | Adjustment
Key = tuple[str, str]  # a job's key, and a state as pages show it


def gpu_ms_within(rows: Sequence[Row], interval: Interval, scope: Scope) -> list[int]:
    """Milliseconds of each row that lie in the interval: with the scope's figure they sum to what
    pages say of it.
    """
    within = [row.gpu_ms for row in rows]
    for part in _edges(interval):
        places = _of_cut(rows, part)
        wanted = _read(part, scope)
        for key, own in _by_key(rows, places).items():
            shares = split(wanted.get(key, 0), [rows[place].gpu_ms for place in own])
            for place, gpu_ms in zip(own, shares, strict=True):
                within[place] = gpu_ms
    return within


def split(total_ms: int, gpu_ms: Sequence[int]) -> list[int]:
    """The total in whole milliseconds, in proportion to these."""
    whole_ms = sum(gpu_ms)
    if not total_ms or not whole_ms:
        return [0] * len(gpu_ms)
    weights = np.array([gpu_ms], dtype=np.float64) / whole_ms
    parts: list[int] = largest_remainder(np.array([total_ms]), weights)[0].tolist()
    return parts


def _edges(interval: Interval) -> Iterator[Interval]:
    """What of its first and last cut lies in it, where that is not all of the cut."""
    cuts = {cut_of(moment, zone()) for moment in (interval.start_ms, interval.end_ms - 1)}
    for start_ms in sorted(cuts):
        hour_ms = floor_hour_ms(start_ms)
        later = edges(hour_ms, hour_ms + 2 * HOUR_MS, zone())
        end_ms = int(min(edge for edge in later if edge > start_ms))
        part_ms = max(start_ms, interval.start_ms), min(end_ms, interval.end_ms)
        if part_ms != (start_ms, end_ms):
            yield Interval(*map(from_ms, part_ms))


def _of_cut(rows: Sequence[Row], part: Interval) -> list[int]:
    start_ms = cut_of(part.start_ms, zone())
    return [place for place, row in enumerate(rows) if to_ms(row.start) == start_ms]


def _by_key(rows: Sequence[Row], places: Sequence[int]) -> Mapping[Key, list[int]]:
    by_key: dict[Key, list[int]] = defaultdict(list)
    for place in places:
        row = rows[place]
        by_key[row.job.key if row.job else UNALLOCATED, shown_state(row)].append(place)
    return by_key


def _read(part: Interval, scope: Scope) -> dict[Key, int]:
    return {
        (group.key, state): gpu_ms
        for group in costs.totals_by(part, "job", scope=scope)
        for state, gpu_ms in group.totals.shown_states.items()
    }
