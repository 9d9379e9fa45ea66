"""Days of causes that were summed, and parts of such days, of all nodes together: a process puts
them together once, and keeps them while no node's day is summed anew.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date
from typing import Any

import numpy as np

from fleetwatch.diagnosis.cause_columns import RECORD
from fleetwatch.diagnosis.cause_totals import FIGURES
from fleetwatch.figures import narrow_columns
from fleetwatch.figures.alike_gpus import AlikeGPUs, alike_gpus
from fleetwatch.figures.packed_spans import NO_NODE, Ints, Spans, numbered, sums, unpacked
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.kept import Kept
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

_SUMMED, CAUSED = (
    read_statement(f"diagnosis/sql/{name}.sql") for name in ("summed_days", "caused")
)
_EMPTY: list[Any] = []
# what CAUSED is asked for: all that nodes have of which the day is summed, under any price
_OF_SUMMED = {
    "of_summed": True,
    "use_sums": True,
    "is_current": False,
    **dict.fromkeys(("moments", "moved", "eras", "steps", "kept_days"), _EMPTY),
    **dict.fromkeys(("node_ids", "job_id", "cause")),
}
_NAMES = ("gpu", "job", "label", "confidence", *FIGURES)
_HEADS = len(_NAMES) - len(FIGURES)
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


@dataclass(frozen=True, slots=True)
class _Cut:
    spans: Spans[str]

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(column.nbytes for column in self.spans.columns)


FleetDay = tuple[date, int, CauseDay]  # with the number of its era
# A month of 10,000 GPUs has some 20 MB.
_KEPT: Kept[Interval, CauseDay] = Kept(most_bytes=64 * 2**20)
# A cut of 10,000 GPUs has some 2 MB.
_CUTS: Kept[Interval, _Cut] = Kept(most_bytes=16 * 2**20)


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


def of_cut(cut: Interval) -> Spans[str] | None:
    """What causes took in this cut of the ledger, GPU by GPU, on the nodes of which its UTC day is
    summed; None where it is summed of no node.
    """
    day = cut.start.astimezone(UTC).date()
    summed = fetched(_SUMMED, {"days": [day]})
    if not summed:
        return None
    [(_, *version)] = summed
    kept = _CUTS.read(cut, version)
    if kept is None:
        kept = _Cut(unpacked(_rows(day, cut), RECORD))
        _CUTS.keep(cut, version, kept)
    return kept.spans


def _kept_or_read(day: date, part: Interval, version: _Version, alike: AlikeGPUs) -> CauseDay:
    kept = _KEPT.read(part, version)
    if kept is None:
        kept = _together(unpacked(_rows(day, part), RECORD), alike)
        _KEPT.keep(part, version, kept)
    return kept


def _rows(day: date, part: Interval) -> list[tuple[Any, ...]]:
    return fetched(CAUSED, _OF_SUMMED | {"days": [day], "start": part.start, "end": part.end})


def _together(spans: Spans[str], alike: AlikeGPUs) -> CauseDay:
    """The spans of all nodes by GPUs that are alike, job and cause."""
    (gpu, job, label), at = _grouped((alike.first_of(spans.gpu), spans.job, spans.label))
    sure = np.zeros(len(gpu), dtype=np.int64)
    np.maximum.at(sure, at, spans.figures["confidence"])
    figures = (sums(at, ms, len(gpu)) for ms in spans.figures["ms"].T)
    columns = dict(zip(_NAMES, (gpu, job, label, sure, *figures), strict=True))
    return CauseDay(tuple(spans.labels), narrow_columns.packed(columns), len(gpu))


def _grouped(columns: Sequence[Ints]) -> tuple[list[Ints], Ints]:
    """The distinct rows of the columns, column by column, and of each row its place in them."""
    keys = np.zeros_like(columns[0])
    for values in columns:
        distinct, place = numbered(values)
        keys = keys * max(1, len(distinct)) + place
    numbers, at = numbered(keys)
    first = np.zeros_like(numbers)
    first[at] = np.arange(len(at))
    return [values[first] for values in columns], at


def spans_of(days: Sequence[FleetDay]) -> Spans[str]:
    """The spans of days, at least one (number of its era, its causes), in one step of time."""
    every = [day for *_, day in days]
    labels = list(dict.fromkeys(name for day in every for name in day.labels))
    columns, ms = _end_to_end(every, labels)
    return Spans(
        node=np.full(len(ms), NO_NODE),
        step=np.zeros(len(ms), dtype=np.int64),
        era=np.repeat([era for _, era, _ in days], [day.spans for day in every]),
        labels=labels,
        figures={"confidence": columns.pop("confidence"), "ms": ms},
        **columns,
    )


def _end_to_end(days: Sequence[CauseDay], labels: list[str]) -> tuple[dict[str, Ints], Ints]:
    """The columns of all of them: those before FIGURES, and these, figure by figure as they are
    read.
    """
    count = sum(day.spans for day in days)
    heads = {name: np.empty(count, dtype=np.int64) for name in _NAMES[:_HEADS]}
    ms = np.empty((count, len(FIGURES)), dtype=np.int64, order="F")
    columns = heads | dict(zip(FIGURES, ms.T, strict=True))
    start = 0
    for day in days:
        _write(day, columns, slice(start, start := start + day.spans), labels)
    return heads, ms


def _write(day: CauseDay, columns: Mapping[str, Ints], part: slice, labels: list[str]) -> None:
    """What is kept of the day into that part of the columns, its labels as places in `labels`."""
    read = narrow_columns.unpacked(day.columns, _NAMES)
    numbers = np.array([labels.index(name) for name in day.labels], dtype=np.int64)
    for name in _NAMES:
        columns[name][part] = numbers[read[name]] if name == "label" else read[name]
