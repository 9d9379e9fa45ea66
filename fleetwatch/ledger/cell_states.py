"""What posting says of five-minute cells: milliseconds of each held GPU and job by state and waste tier. Pure.

The same judgement as the entries', in smaller pieces: of one hour, GPU and job the cells sum to
the entries. Diagnosis tells by them which part of an hour a cause explains.
"""

from collections.abc import Iterable

import numpy as np

from fleetwatch.ledger.facts import Ints
from fleetwatch.ledger.tally import KINDS_OF_LABEL, Tally
from fleetwatch.lib.intervals import HOUR_MS

CELL_MS = 300_000
CELLS_PER_HOUR = HOUR_MS // CELL_MS
# What a held GPU can be, with its waste tier; a column each.
LABELS = (
    ("useful", ""), ("underused", "potential"), ("stalled", "probable"), ("stalled", "potential"), ("idle", "certain"),
    ("idle", "probable"), ("starting", ""), ("unobserved", ""), ("unavailable", ""),
)  # fmt: skip
NAMES = tuple("_".join(filter(None, label)) for label in LABELS)
_PLACE = {label: place for place, label in enumerate(LABELS)}
KEYS = ("gpu_id", "job_id", "start_ms")

Table = dict[str, Ints]


def rows(tally: Tally, *, gpu_id: int, job_id: int | None, atom_start_ms: Ints) -> Table | None:
    """KEYS and a column of milliseconds per NAMES, one row per cell in which the job held the GPU; None where it did not."""
    if job_id is None or not tally.atom:
        return None
    place = np.array([_PLACE[(label.state, label.tier)] for label in tally.labels], dtype=np.int64)
    cell = atom_start_ms[np.concatenate(tally.atom)] // CELL_MS
    first = int(cell.min())
    key = (cell - first) * len(LABELS) + place[np.concatenate(tally.kind) // KINDS_OF_LABEL]
    size = (int(cell.max()) - first + 1) * len(LABELS)
    sums = np.bincount(key, weights=np.concatenate(tally.gpu_ms), minlength=size).astype(np.int64).reshape(-1, len(LABELS))
    held = np.flatnonzero(sums.any(axis=1))
    keys = (np.full(len(held), gpu_id), np.full(len(held), job_id), (held + first) * CELL_MS)
    return dict(zip(KEYS, keys, strict=True)) | dict(zip(NAMES, sums[held].T, strict=True))


def joined(tables: Iterable[Table | None]) -> Table:
    """All rows, by start, GPU and job."""
    known = [table for table in tables if table is not None]
    if not known:
        return {name: np.zeros(0, dtype=np.int64) for name in (*KEYS, *NAMES)}
    whole = {name: np.concatenate([table[name] for table in known]) for name in (*KEYS, *NAMES)}
    order = np.lexsort([whole["job_id"], whole["gpu_id"], whole["start_ms"]])
    return {name: values[order] for name, values in whole.items()}


def by_hour(table: Table) -> dict[int, Table]:
    """Clock hour -> its rows."""
    hours = table["start_ms"] // HOUR_MS * HOUR_MS
    return {int(hour): {name: values[hours == hour] for name, values in table.items()} for hour in np.unique(hours)}
