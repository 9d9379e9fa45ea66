"""What posting says of five-minute cells: milliseconds of each held GPU and job by state and waste
tier. Pure.

The same judgement as the entries', in smaller pieces: of one hour, GPU and job the cells sum to
the entries. Diagnosis tells by them which part of an hour a cause explains.
"""

from collections.abc import Sequence

import numpy as np

from fleetwatch.ledger.judgement.observations import Ints
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
KEYS = ("gpu_id", "job_id", "start_ms")

Table = dict[str, Ints]


def joined(tables: Sequence[Table]) -> Table:
    """All rows, by start, GPU and job."""
    whole = together(tables)
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
