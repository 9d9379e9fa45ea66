"""Where windows' figures go, and what those of one GPU and cell make together. Pure numpy."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fleetwatch.diagnosis.judgement.array_tools import ratio, rows_among, starts
from fleetwatch.ledger.judgement.cell_states import CELL_MS
from fleetwatch.ledger.judgement.observations import Floats, Ints, Windows

NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Grid:
    """The GPUs and cells whose figures are asked for.

    `host_of` is the place of each GPU's node among the hosts. `memory_bytes` is each GPU's total,
    NaN = not known. `holders` is who holds each GPU and cell, 0 = nobody: GPUs that one holds
    together are peers.
    """

    gpu_ids: Ints
    host_of: Ints
    memory_bytes: Floats
    holders: Ints
    start_ms: int  # of the first cell

    def rows_of(self, gpu_id: Ints) -> Ints:
        """The row of each GPU; their number where it is none of them."""
        order = np.argsort(self.gpu_ids)
        return np.append(order, len(order))[rows_among(self.gpu_ids[order], gpu_id)]

    @property
    def count(self) -> int:
        """Cells per GPU."""
        return int(self.holders.shape[1])


@dataclass(frozen=True, slots=True)
class Places:
    """Where each window's figures go: position of (GPU, cell) in a flat array, or NOWHERE."""

    grid: Grid
    gpu: Ints  # row of each window's GPU; their number = it is none of them
    of_window: Ints
    began: Ints  # the same, also of windows in which nothing was observed
    rows: Ints  # the windows that have a place, by place
    starts: Ints  # of each place's first window within `rows`
    filled: Ints  # the places that have windows, ascending

    @classmethod
    def of(cls, windows: Windows, grid: Grid) -> "Places":
        gpu = grid.rows_of(windows.gpu_id)
        cell = (windows.start_ms - grid.start_ms) // CELL_MS
        is_inside = (gpu < len(grid.gpu_ids)) & (cell >= 0) & (cell < grid.count)
        began = np.where(is_inside, gpu * grid.count + cell, NOWHERE)
        place = np.where(windows.observed_ms > 0, began, NOWHERE)
        rows = np.flatnonzero(place >= 0)
        rows = rows[np.argsort(place[rows], kind="stable")]
        first = starts(place[rows])
        return cls(grid, gpu, place, began, rows, first, place[rows][first])

    @property
    def size(self) -> int:
        return self.grid.holders.size

    def shaped(self, values: Floats) -> Floats:
        """A flat array of all places as GPUs x cells."""
        return values.reshape(self.grid.holders.shape)

    def means(self, columns: Mapping[str, Floats], weight: Ints) -> dict[str, Floats]:
        """Per column the mean by weight over the windows in which it was read."""
        by = weight[self.rows].astype(np.float64)
        whole = np.add.reduceat(by, self.starts)
        return {
            name: self._spread(self._mean(column[self.rows], by, whole))
            for name, column in columns.items()
        }

    def _mean(self, values: Floats, by: Floats, whole: Floats) -> Floats:
        """`whole`: the weights' sums, which hold where every window was read: nearly everywhere."""
        weighted = values * by
        mean: Floats = np.add.reduceat(weighted, self.starts) / whole
        if not np.isnan(mean).any():
            return mean
        is_read = ~np.isnan(values)
        total = np.add.reduceat(np.where(is_read, weighted, 0.0), self.starts)
        return ratio(total, np.add.reduceat(np.where(is_read, by, 0.0), self.starts))

    def total(self, values: Floats) -> Floats:
        """Sums per place of what was read; NaN where nothing was."""
        here = values[self.rows]
        is_read = ~np.isnan(here)
        sums = np.add.reduceat(np.where(is_read, here, 0.0), self.starts)
        return self._spread(np.where(np.add.reduceat(is_read, self.starts) > 0, sums, np.nan))

    def largest(self, values: Floats) -> Floats:
        """Largest value read per place; NaN where none was: np.fmax passes NaN over."""
        return self._spread(np.fmax.reduceat(values[self.rows], self.starts))

    def _spread(self, values: Floats) -> Floats:
        flat = np.full(self.size, np.nan)
        flat[self.filled] = values
        return self.shaped(flat)
