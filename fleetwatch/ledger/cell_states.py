"""What posting says of five-minute cells: milliseconds of each held GPU and job by state and waste
tier. Pure.

The same judgement as the entries', in smaller pieces: of one hour, GPU and job the cells sum to
the entries. Diagnosis tells by them which part of an hour a cause explains.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from fleetwatch.ledger.labels import LABEL_SHIFT
from fleetwatch.ledger.observations import Ints
from fleetwatch.ledger.tally import Sums, Tally
from fleetwatch.lib.intervals import HOUR_MS

CELL_MS = 300_000
CELLS_PER_HOUR = HOUR_MS // CELL_MS
# What a held GPU can be, with its waste tier; a column each.
LABELS = (
    ("useful", ""), ("underused", "potential"), ("stalled", "probable"), ("stalled", "potential"),
    ("idle", "certain"),
    ("idle", "probable"), ("starting", ""), ("unobserved", ""), ("unavailable", ""),
)  # fmt: skip
NAMES = tuple("_".join(filter(None, label)) for label in LABELS)
_PLACE = {label: place for place, label in enumerate(LABELS)}
KEYS = ("gpu_id", "job_id", "start_ms")

Table = dict[str, Ints]


def rows(
    tally: Tally, sums: Sums, *, holders: int, gpu_id: Ints, job_id: Ints, start_ms: Ints
) -> Table:
    """KEYS and a column of milliseconds per NAMES, one row per cell in which a job held a GPU, by
    start, GPU and job.

    `holders`: the first place of a job's; GPU and job of each lane; start of each place.
    """
    is_held = sums.first >= holders
    lane, cell = tally.lane[sums.first], start_ms[sums.first] // CELL_MS
    is_begun = np.append(True, (lane[1:] != lane[:-1]) | (cell[1:] != cell[:-1]))
    group, first = np.cumsum(is_begun) - 1, np.flatnonzero(is_begun)
    place = np.array(
        [_PLACE.get((label.state, label.tier), -1) for label in tally.labels], dtype=np.int64
    )
    told = np.flatnonzero(is_held[sums.segment])
    key = group[sums.segment[told]] * len(LABELS) + place[sums.kind[told] >> LABEL_SHIFT]
    whole = (
        np.bincount(key, weights=sums.gpu_ms[told], minlength=len(first) * len(LABELS))
        .astype(np.int64)
        .reshape(-1, len(LABELS))
    )
    held = np.flatnonzero(whole.any(axis=1))
    keys = (gpu_id[lane[first[held]]], job_id[lane[first[held]]], cell[first[held]] * CELL_MS)
    return joined(
        [dict(zip(KEYS, keys, strict=True)) | dict(zip(NAMES, whole[held].T, strict=True))]
    )


def joined(tables: Iterable[Table | None]) -> Table:
    """All rows, by start, GPU and job."""
    whole = together([table for table in tables if table is not None])
    order = np.lexsort([whole["job_id"], whole["gpu_id"], whole["start_ms"]])
    return {name: values[order] for name, values in whole.items()}


def together(tables: Sequence[Table]) -> Table:
    """The rows of one table after the other."""
    nothing = np.zeros(0, dtype=np.int64)
    return {
        name: np.concatenate([nothing, *(table[name] for table in tables)])
        for name in (*KEYS, *NAMES)
    }


def by_hour(table: Table) -> dict[int, Table]:
    """Clock hour -> its rows; the table is sorted by start."""
    hours, first = np.unique(table["start_ms"] // HOUR_MS * HOUR_MS, return_index=True)
    bounds = [*first.tolist(), len(table["start_ms"])]
    return {
        hour: {name: values[low:high] for name, values in table.items()}
        for hour, low, high in zip(hours.tolist(), bounds[:-1], bounds[1:], strict=True)
    }
