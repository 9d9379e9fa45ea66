"""Days of the fleet that were summed: what of a figure that names no node and no GPU is read of one
row instead of one for each node.
"""

from collections.abc import Sequence
from datetime import datetime
from functools import cache

import zstandard

from fleetwatch.figures.alike_gpus import alike_gpus
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

_FLEET_DAYS = read_statement("figures/sql/fleet_days.sql")


def current(days: Sequence[Interval], *, of_jobs: bool) -> dict[datetime, bytes]:
    """By start those of the days whose sums are as new as their entries, and of GPUs that are alike
    still: their spans, packed as state_spans.py has them; of each holder, or of all together.
    """
    rows = _as_new_as_entries(days, of_jobs=of_jobs)
    return {start: zstandard.decompress(spans) for start, spans in rows}


def summed(days: Sequence[Interval]) -> set[datetime]:
    """The starts of these days."""
    return {start for start, _ in _as_new_as_entries(days, of_jobs=None)}


def _as_new_as_entries(
    days: Sequence[Interval], *, of_jobs: bool | None
) -> list[tuple[datetime, bytes]]:
    wanted = {
        "day_starts": [day.start for day in days],
        "day_ends": [day.end for day in days],
        "of_jobs": of_jobs,
    }
    rows = fetched(_FLEET_DAYS, wanted)
    if not rows:
        return []
    digest = cache(alike_gpus().digest)
    return [(start, spans) for start, last_id, alike, spans in rows if digest(last_id) == alike]
