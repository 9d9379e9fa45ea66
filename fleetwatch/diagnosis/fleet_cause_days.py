"""Days of causes that were summed, and parts of such days, of all nodes together: a process puts
them together once, and keeps them while no node's day is summed anew.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetwatch.diagnosis.cause_columns import RECORD
from fleetwatch.diagnosis.cause_totals import FIGURES
from fleetwatch.figures import narrow_columns
from fleetwatch.figures.alike_gpus import AlikeGPUs, alike_gpus
from fleetwatch.figures.packed_spans import NO_NODE, Ints, Spans, numbered, sums, unpacked
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.kept import Kept
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

_SUMMED, _OF_DAY, _OF_PART = (
    read_statement(f"diagnosis/sql/{name}.sql")
    for name in ("summed_days", "sums_of_day", "causes_of_part")
)
_DAY = timedelta(days=1)
_NAMES = ("gpu", "job", "label", "confidence", *FIGURES)
# of how many nodes a day was summed, and from when on it would be another one; which GPUs are alike
_Version = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class CauseDay:
    """Causes of a day, or of a part of it: of GPUs that are alike, wherever they are, one stands
    for all of them.
    """

    labels: tuple[str, ...]
    columns: bytes  # of _NAMES
    spans: int

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.columns)


FleetDay = tuple[date, int, CauseDay]  # with the number of its era
# A month of 10,000 GPUs has some 20 MB.
_KEPT: Kept[Interval, CauseDay] = Kept(most_bytes=64 * 2**20)


def current(parts: Mapping[date, Interval]) -> dict[date, CauseDay]:
    """Of these parts of UTC days (whole cuts of the ledger), by their days, what causes took on
    the nodes of which the day is summed; none of a day that is summed of no node.
    """
    summed = fetched(_SUMMED, {"days": list(parts)}) if parts else []
    if not summed:
        return {}
    alike = alike_gpus()
    digest = alike.digest(alike.last_id)
    return {
        day: _kept_or_read(day, parts[day], (nodes, number, digest), alike)
        for day, nodes, number in summed
    }


def _kept_or_read(day: date, part: Interval, version: _Version, alike: AlikeGPUs) -> CauseDay:
    kept = _KEPT.read(part, version)
    if kept is None:
        kept = _together(unpacked(_rows(day, part), RECORD), alike)
        _KEPT.keep(part, version, kept)
    return kept


def _rows(day: date, part: Interval) -> list[tuple[Any, ...]]:
    if part.end - part.start == _DAY:
        return fetched(_OF_DAY, {"day": day})
    return fetched(_OF_PART, {"day": day, "start": part.start, "end": part.end})


def _together(spans: Spans[str], alike: AlikeGPUs) -> CauseDay:
    """The spans of all nodes by GPUs that are alike, job and cause."""
    gpus, gpu = numbered(alike.first_of(spans.gpu))
    jobs, job = numbered(spans.job)
    shape = max(1, len(gpus)), max(1, len(spans.labels))
    keys, at = numbered((job * shape[0] + gpu) * shape[1] + spans.label)
    sure = np.zeros(len(keys), dtype=np.int64)
    np.maximum.at(sure, at, spans.figures["confidence"])
    rest, label = np.divmod(keys, shape[1])
    of_job, of_gpu = np.divmod(rest, shape[0])
    heads = (gpus[of_gpu], jobs[of_job], label, sure)
    figures = (sums(at, ms, len(keys)) for ms in spans.figures["ms"].T)
    columns = dict(zip(_NAMES, (*heads, *figures), strict=True))
    return CauseDay(tuple(spans.labels), narrow_columns.packed(columns), len(keys))


def spans_of(days: Sequence[FleetDay]) -> Spans[str]:
    """The spans of days, at least one (number of its era, its causes), in one step of time."""
    labels: dict[str, int] = {}
    count = sum(day.spans for *_, day in days)
    columns = {name: np.empty(count, dtype=np.int64) for name in ("era", *_NAMES[:4])}
    # figure by figure, as they are read
    ms = np.empty((count, len(FIGURES)), dtype=np.int64, order="F")
    start = 0
    for _, era, day in days:
        part = slice(start, start := start + day.spans)
        read = narrow_columns.unpacked(day.columns, _NAMES)
        numbers = [labels.setdefault(name, len(labels)) for name in day.labels]
        _write(columns, part, read, era, np.array(numbers, dtype=np.int64))
        for place, name in enumerate(FIGURES):
            ms[part, place] = read[name]
    nothing = np.zeros(count, dtype=np.int64)
    figures = {"confidence": columns.pop("confidence"), "ms": ms}
    return Spans(
        node=nothing + NO_NODE, step=nothing, labels=list(labels), figures=figures, **columns
    )


def _write(
    columns: Mapping[str, Ints],
    part: slice,
    read: Mapping[str, NDArray[Any]],
    era: int,
    numbers: Ints,
) -> None:
    columns["era"][part] = era
    columns["label"][part] = numbers[read["label"]]
    for name in ("gpu", "job", "confidence"):
        columns[name][part] = read[name]
