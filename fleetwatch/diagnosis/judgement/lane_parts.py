"""Lanes in parts of like length: a job is judged over the time in which it holds GPUs, not over
everybody else's too. Pure numpy.

Of a day's jobs on a GPU each holds it for a part of the day: judged over the whole day, most of
every array would be nobody's time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetwatch.diagnosis.judgement.array_tools import starts
from fleetwatch.diagnosis.judgement.lanes import Lanes
from fleetwatch.ledger.judgement.observations import Ints

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
    size = np.where(last > since, _rounded(last - first, count), 0)  # 0 = nobody asks
    _join_few(size, few)
    for length in np.unique(size[size > 0]).tolist():
        rows = np.flatnonzero(size == length)
        columns = np.minimum(first[rows], count - length)[:, None] + np.arange(length)
        yield Part(lanes.at(rows, columns), rows, columns)


def _join_few(size: Ints, few: int) -> None:
    for length, longer in pairwise(np.unique(size[size > 0]).tolist()):
        is_shorter = size == length
        if np.count_nonzero(is_shorter) * (longer - length) <= few:
            size[is_shorter] = longer


def _rounded(cells: Ints, most: int) -> Ints:
    """Up to SHORTEST, its double and so on; at most all of them."""
    doubled = np.ceil(np.log2(np.maximum(cells / SHORTEST, 1))).astype(np.int64)
    rounded: Ints = np.minimum(SHORTEST << doubled, most)
    return rounded


def _extents(lanes: Lanes) -> tuple[Ints, Ints]:
    """Per lane from which cell to before which one its job holds any GPU; one that holds none ends
    before it begins.
    """
    count = lanes.held.shape[1]
    is_held = lanes.held.any(axis=1)
    first = np.where(is_held, lanes.held.argmax(axis=1), count)
    last = np.where(is_held, count - lanes.held[:, ::-1].argmax(axis=1), 0)
    of_jobs = starts(lanes.job_id)
    sizes = np.diff(of_jobs, append=len(first))
    first = np.repeat(np.minimum.reduceat(first, of_jobs), sizes)
    return first, np.repeat(np.maximum.reduceat(last, of_jobs), sizes)
