"""Days of the fleet that were summed: what of a figure of the fleet is read of one row instead of
one for each node.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any

from numpy.typing import NDArray

from fleetwatch.figures import narrow_columns
from fleetwatch.figures.alike_gpus import alike_gpus
from fleetwatch.figures.state_spans import CUT_RECORD, RECORD
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

_FLEET_DAYS = read_statement("figures/sql/fleet_days.sql")


class Form(StrEnum):
    """What is told apart: but for GPU and HOUR, of GPUs that are alike (but for NODE, wherever they
    are) one stands for them; but for JOB and HOUR, all holders are together. HOUR tells cuts of the
    ledger apart, too.
    """

    JOB = "job"
    TOTAL = "total"
    NODE = "node"
    GPU = "gpu"
    HOUR = "hour"


Fields = Mapping[str, NDArray[Any]]  # of RECORD; of HOUR of CUT_RECORD


def current(days: Sequence[Interval], form: Form) -> dict[datetime, Fields]:
    """By start those of the days whose sums are as new as their entries, and of GPUs that are alike
    still: their spans.
    """
    names = (CUT_RECORD if form == Form.HOUR else RECORD).names or ()
    return {start: narrow_columns.unpacked(spans, names) for start, spans in _current(days, form)}


def summed(days: Sequence[Interval]) -> set[datetime]:
    """The starts of these days."""
    return {start for start, _ in _current(days, None)}


def _current(days: Sequence[Interval], form: Form | None) -> list[tuple[datetime, bytes]]:
    wanted = {
        "day_starts": [day.start for day in days],
        "day_ends": [day.end for day in days],
        "form": form,
    }
    rows = fetched(_FLEET_DAYS, wanted)
    if not rows:
        return []
    digest = cache(alike_gpus().digest)
    return [(start, spans) for start, last_id, alike, spans in rows if digest(last_id) == alike]
