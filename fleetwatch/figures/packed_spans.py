"""GPU time as columns, packed by Postgres and read as it is: what spans of any kind have in common.

A month of a large fleet is hundreds of thousands of spans; grouping and pricing columns of them
takes milliseconds. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Label = TypeVar("Label")

# every record begins with these; what follows are its figures
HEAD = [("gpu", ">i8"), ("job", ">i8"), ("label", ">i2")]
NO_JOB = NO_NODE = 0  # ids begin with 1
_LOOSE = 16  # ids that lie so close together are numbered by counting, others by sorting

# id of the node, number of the step and of the era, the labels' names with commas (None: the labels
# are the same for all), packed spans
Row = tuple[int, int, int, str | None, bytes]


@dataclass(frozen=True, slots=True)
class Spans(Generic[Label]):
    """Columns of one length: time of one GPU and holder under one label (a state and tier, or a
    cause), in one step of time and era (between two changes of prices).
    """

    node: Ints
    step: Ints
    era: Ints
    gpu: Ints
    job: Ints  # NO_JOB = nobody held it, or nobody asked who did
    label: Ints  # place in labels
    labels: Sequence[Label]
    figures: Mapping[str, NDArray[Any]]  # by name, a row for each span

    @property
    def columns(self) -> list[NDArray[Any]]:
        """All of them, figures too."""
        return [*(getattr(self, name) for name in _COLUMNS), *self.figures.values()]

    def where(self, chosen: Bools | Ints) -> "Spans[Label]":
        """Those of them."""
        columns = {name: getattr(self, name)[chosen] for name in _COLUMNS}
        figures = {name: values[chosen] for name, values in self.figures.items()}
        return replace(self, **columns, figures=figures)


_COLUMNS = ("node", "step", "era", "gpu", "job", "label")


def unpacked(
    rows: Sequence[Row], record: np.dtype[np.void], labels: Sequence[Any] = ()
) -> Spans[Any]:
    """The spans of rows that are packed so; the label of a row with names is a place among these,
    from 1 on, and else one in `labels`.
    """
    lengths = np.array([len(row[4]) // record.itemsize for row in rows], dtype=np.int64)
    node, step, era = _repeated([row[:3] for row in rows], lengths)
    figures = fields(b"".join(row[4] for row in rows), record)
    gpu, job, label = (figures.pop(name) for name, _ in HEAD)
    if not labels:
        label, labels = _renumbered(label, lengths, rows)
    return Spans(node, step, era, gpu, job, label, labels, figures)


def of_fields(
    parts: Sequence[tuple[int, int, Mapping[str, NDArray[Any]]]], labels: Sequence[Label]
) -> Spans[Label]:
    """The spans of parts, at least one (number of the step and of the era, fields of its spans),
    which tell no nodes apart.
    """
    lengths = np.array([len(each["gpu"]) for *_, each in parts], dtype=np.int64)
    node, step, era = _repeated([(NO_NODE, *each[:2]) for each in parts], lengths)
    figures = {name: np.concatenate([each[name] for *_, each in parts]) for name in parts[0][2]}
    gpu, job, label = (figures.pop(name) for name, _ in HEAD)
    return Spans(node, step, era, gpu, job, label, labels, figures)


def _repeated(places: Sequence[tuple[int, int, int]], lengths: Ints) -> Ints:
    """Node, step and era of each row's spans."""
    return np.repeat(np.array(places, dtype=np.int64).reshape(-1, 3).T, lengths, axis=1)


def fields(packed: bytes, record: np.dtype[np.void]) -> dict[str, NDArray[Any]]:
    """Each field of the records as this machine has numbers."""
    spans: NDArray[np.void] = np.frombuffer(packed, dtype=record)
    return {
        name: spans[name].astype(np.float64 if kind.base.kind == "f" else np.int64)
        for name, (kind, *_) in (record.fields or {}).items()
    }


def _renumbered(label: Ints, lengths: Ints, rows: Sequence[Row]) -> tuple[Ints, list[str]]:
    """The labels as places in one list of all names."""
    places: dict[str, int] = {}
    # names of rows behind each other, those of many rows once: a span's number is a place in its
    # row's part
    numbers: list[int] = []
    begins: dict[str, int] = {}
    for names in dict.fromkeys(row[3] or "" for row in rows):
        begins[names] = len(numbers)
        numbers += [places.setdefault(name, len(places)) for name in names.split(",")]
    first = np.array([begins[row[3] or ""] for row in rows], dtype=np.int64)
    at = np.repeat(first, lengths) + label - 1
    return np.array(numbers, dtype=np.int64)[at], list(places)


def joined(first: Spans[Label], second: Spans[Label]) -> Spans[Label]:
    """The spans of both."""
    if not len(first.gpu):
        return second
    return _end_to_end(first, second) if len(second.gpu) else first


def _end_to_end(first: Spans[Label], second: Spans[Label]) -> Spans[Label]:
    labels = list(dict.fromkeys([*first.labels, *second.labels]))
    number = {label: place for place, label in enumerate(labels)}
    named = [
        np.array([number[label] for label in each.labels], dtype=np.int64)[each.label]
        for each in (first, second)
    ]
    columns: dict[str, NDArray[Any]] = {
        name: np.concatenate([getattr(first, name), getattr(second, name)]) for name in _COLUMNS
    }
    figures = {
        name: np.concatenate([values, second.figures[name]])
        for name, values in first.figures.items()
    }
    return Spans(**columns | {"label": np.concatenate(named)}, labels=labels, figures=figures)


def numbered(values: Ints) -> tuple[Ints, Ints]:
    """The distinct values, ascending, and of each value its place among them."""
    if not len(values):
        return values, values
    low = int(values.min())
    high = int(values.max())
    if high - low >= _LOOSE * len(values) + 1024:
        distinct, place = np.unique(values, return_inverse=True)
        return distinct, place
    is_there = np.zeros(high - low + 1, dtype=bool)
    is_there[values - low] = True
    distinct = np.flatnonzero(is_there)
    places = np.zeros(high - low + 1, dtype=np.int64)
    places[distinct] = np.arange(len(distinct))
    return distinct + low, places[values - low]


def sums(place: Ints, values: Ints, count: int) -> Ints:
    """The sum of the values at each place.

    Exact: floats count whole numbers up to 2^53, 285,000 GPU-years of milliseconds.
    """
    return np.bincount(place, weights=values, minlength=count).astype(np.int64)
