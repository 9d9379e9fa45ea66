"""Days of the fleet that were summed: what of a figure of the fleet is read of one row instead of
one for each node.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray

from fleetwatch.figures import narrow_columns
from fleetwatch.figures.alike_gpus import alike_gpus
from fleetwatch.figures.state_spans import CUT_RECORD, RECORD
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.kept import Kept
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


# Of the entries, the newest GPU, which of them are alike and how that is packed: of one version
# there is one sum.
Version = tuple[int, int, str]
Fields = Mapping[str, NDArray[Any]]  # of RECORD; of HOUR of CUT_RECORD

# What pages read again: of 10,000 GPUs a month of jobs has 17 MB, a day by hour 20.
_KEPT: Kept[tuple[datetime, Form], NDArray[np.uint8]] = Kept(most_bytes=64 * 2**20)


def current(days: Sequence[Interval], form: Form) -> dict[datetime, Fields]:
    """By start those of the days whose sums are as new as their entries, and of GPUs that are alike
    still: their spans.
    """
    names = (CUT_RECORD if form == Form.HOUR else RECORD).names or ()
    versions = {start: version for start, version, _ in _current(days, None)}
    kept = {start: _KEPT.read((start, form), version) for start, version in versions.items()}
    spans = {start: each for start, each in kept.items() if each is not None}
    spans |= _read([day for day in days if day.start in versions.keys() - spans.keys()], form)
    return {start: narrow_columns.unpacked(each.data, names) for start, each in spans.items()}


def _read(days: Sequence[Interval], form: Form) -> dict[datetime, NDArray[np.uint8]]:
    """By start what is stored of them, which is kept."""
    read = {}
    for start, version, spans in _current(days, form) if days else []:
        read[start] = np.frombuffer(zstandard.decompress(spans), dtype=np.uint8)
        _KEPT.keep((start, form), version, read[start])
    return read


def forget_kept() -> None:
    """The next figures read what is stored: for who looks whether that is right."""
    _KEPT.forget()


def summed(days: Sequence[Interval]) -> set[datetime]:
    """The starts of these days."""
    return {start for start, *_ in _current(days, None)}


def _current(days: Sequence[Interval], form: Form | None) -> list[tuple[datetime, Version, bytes]]:
    """Start, version and spans."""
    wanted = {
        "day_starts": [day.start for day in days],
        "day_ends": [day.end for day in days],
        "form": form,
    }
    rows = fetched(_FLEET_DAYS, wanted)
    if not rows:
        return []
    digest = cache(alike_gpus().digest)
    return [
        (start, (version, last_id, alike), spans)
        for start, version, last_id, alike, spans in rows
        if digest(last_id) == alike
    ]
