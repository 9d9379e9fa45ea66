"""Lanes in parts of like length: a job is judged over the time in which it holds GPUs, not over
everybody else's too. Pure numpy.

Of a day's jobs on a GPU each holds it for a part of the day: judged over the whole day, most of
every array would be nobody's time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetwatch.diagnosis.judgement.features import Ints, Lanes

SHORTEST = 16  # cells: jobs of up to so many are one part, then of up to twice as many, and so on
FEW = 10_000  # cells more that cost as much to judge as a part costs by itself


@dataclass(frozen=True, slots=True)
class Part:
    """Some lanes from their jobs' first cells on: at [n, cell] of `lanes` stands the cell
    columns[n, cell] of the lane rows[n].
    """

    lanes: Lanes
    rows: Ints
    columns: Ints

    def put(self, into: NDArray[Any], values: NDArray[Any]) -> None:
        """The part's values go to their place in an array of all lanes and cells."""
        into[self.rows[:, None], self.columns] = values


def parts(lanes: Lanes, *, since: int, few: int = FEW) -> Iterator[Part]:
    """Every lane whose job holds a GPU in a cell from `since` on, once; with the time before it in
    which its job held one.

    Shorter jobs go with longer ones where that makes no more than `few` cells that are nobody's.
    """
    count = lanes.held.shape[1]
    first, last = _extents(lanes)
    size = np.minimum(
        SHORTEST << np.ceil(np.log2(np.maximum((last - first) / SHORTEST, 1))).astype(np.int64),
        count,
    )
    is_wanted = last > since
    for length, longer in pairwise(np.unique(size[is_wanted]).tolist()):
        here = np.flatnonzero(is_wanted & (size == length))
        if len(here) * (longer - length) <= few:
            size[here] = longer
    for length in np.unique(size[is_wanted]).tolist():
        rows = np.flatnonzero(is_wanted & (size == length))
        columns = np.minimum(first[rows], count - length)[:, None] + np.arange(length)
        yield Part(_taken(lanes, rows, columns), rows, columns)


def _extents(lanes: Lanes) -> tuple[Ints, Ints]:
    """Per lane from which cell to before which one its job holds any GPU; one that holds none ends
    before it begins.
    """
    count = lanes.held.shape[1]
    is_held = lanes.held.any(axis=1)
    first = np.where(is_held, lanes.held.argmax(axis=1), count)
    last = np.where(is_held, count - lanes.held[:, ::-1].argmax(axis=1), 0)
    starts = np.flatnonzero(np.diff(lanes.job_id, prepend=-1))
    sizes = np.diff(starts, append=len(first))
    if not len(starts):
        return first, last
    return np.repeat(np.minimum.reduceat(first, starts), sizes), np.repeat(
        np.maximum.reduceat(last, starts), sizes
    )


def _taken(lanes: Lanes, rows: Ints, columns: Ints) -> Lanes:
    places = rows[:, None] * lanes.held.shape[1] + columns

    def taken(values: NDArray[Any]) -> Any:
        return np.take(values, places)

    return replace(
        lanes,
        gpu_id=lanes.gpu_id[rows],
        job_id=lanes.job_id[rows],
        kind=tuple(lanes.kind[row] for row in rows.tolist()),
        is_serving=lanes.is_serving[rows],
        idle_w=lanes.idle_w[rows],
        limit_w=lanes.limit_w[rows],
        memory_bytes=lanes.memory_bytes[rows],
        sevenths=lanes.sevenths[rows],
        held=taken(lanes.held),
        held_ms=taken(lanes.held_ms),
        shared=taken(lanes.shared),
        age=taken(lanes.age),
        warm_up=lanes.warm_up[rows],
        is_over=lanes.is_over[rows],
        failures=lanes.failures[rows],
        cheaper=tuple(lanes.cheaper[row] for row in rows.tolist()),
        figures=lanes.figures.at(rows[:, None], columns),
        states={name: taken(values) for name, values in lanes.states.items()},
    )
