"""Who held which GPU, cell by cell, and what was read of it meanwhile. Pure numpy."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fleetwatch.diagnosis.judgement.array_tools import starts
from fleetwatch.diagnosis.judgement.lane_figures import Figures
from fleetwatch.ledger.judgement.cell_states import CELL_MS
from fleetwatch.ledger.judgement.observations import Floats, Ints, Mask

WARM_UP_MS = 600_000  # models load and kernels compile
WARM_UP_SHARE = 0.1  # of a job's life

Offers = tuple[tuple[float, float], ...]

# Share of the held time that the ledger calls so (`ledger_` + state).
STATES = ("useful", "underused", "stalled", "idle", "starting", "unobserved", "unavailable")

# The fields of Lanes that have a value per lane, and those that have one per lane and cell.
PER_LANE = (
    "gpu_id", "job_id", "kind", "is_serving", "idle_w", "limit_w", "memory_bytes", "sevenths",
    "warm_up", "is_over", "failures",
)  # fmt: skip
PER_CELL = ("held", "held_ms", "shared", "age", "ran_s")


@dataclass(frozen=True)
class Lanes:
    """Who held which GPU, cell by cell: one row per GPU and job, the rows of a job together.

    `figures` are those of cell_figures, NaN where the job did not hold the GPU; `states` the share
    of the cell's held time in each of STATES, NaN where the ledger says nothing; `held_ms` is that
    time, of a GPU that is shared or a part of one the whole cell. Watts and bytes are NaN where not
    known. `age` counts cells since the job's start, of which the first `warm_up` are no work yet;
    it `is_over` where its end is known; `ran_s` is how long it ran by the cell's end, or its own.
    `failures`: how many short runs of its name failed about when the row's job did; 0 where it was
    not one of them. `cheaper`: GPU models that cost less, by what they hold (bytes) and their price
    as a share of this GPU's. `sevenths`: of its physical GPU's compute that the GPU has: 7 = all of
    it, less of a MIG instance, 0 = not known. Where a GPU is `shared`, another job holds it in that
    cell too: its figures are of what they do together.
    """

    gpu_id: Ints
    job_id: Ints
    kind: NDArray[np.str_]  # of each row's job: batch, interactive or service
    is_serving: Mask  # its command or owner is that of a model server
    idle_w: Floats
    limit_w: Floats
    memory_bytes: Floats
    sevenths: Ints
    start_ms: int
    held: Mask
    held_ms: Floats
    shared: Mask
    age: Ints
    ran_s: Floats
    warm_up: Ints
    is_over: Mask
    failures: Ints
    cheaper: tuple[Offers, ...]
    figures: Figures
    states: Mapping[str, Floats]

    @cached_property
    def serves(self) -> Mask:
        """Lanes x 1: of a job that waits for requests, by its kind or by what runs: a pause is
        nobody asking.
        """
        return self.of_kind("service") | self.is_serving[:, None]

    def of_kind(self, kind: str) -> Mask:
        """Lanes x 1: of a job of that kind."""
        is_of_kind: Mask = self.kind == kind
        return is_of_kind[:, None]

    @cached_property
    def of_jobs(self) -> tuple[Ints, ...]:
        """The rows of jobs of one size at a time: jobs x their rows."""
        first = starts(self.job_id)
        sizes = np.diff(first, append=len(self.job_id))
        return tuple(first[sizes == size, None] + np.arange(size) for size in np.unique(sizes))

    def at(self, rows: Ints, columns: Ints) -> "Lanes":
        """Some lanes, at [n, cell] the cell columns[n, cell] of the lane rows[n]."""
        places = rows[:, None] * self.held.shape[1] + columns
        return replace(
            self,
            **{name: getattr(self, name)[rows] for name in PER_LANE},
            **{name: np.take(getattr(self, name), places) for name in PER_CELL},
            cheaper=tuple(self.cheaper[row] for row in rows.tolist()),
            figures=self.figures.at(rows[:, None], columns),
            states={name: np.take(values, places) for name, values in self.states.items()},
        )

    def since(self, cell: int) -> "Lanes":
        """The cells from that one on."""
        if cell == 0:
            return self
        return replace(
            self,
            **{name: getattr(self, name)[:, cell:] for name in PER_CELL},
            start_ms=self.start_ms + cell * CELL_MS,
            figures=self.figures.since(cell),
            states={name: values[:, cell:] for name, values in self.states.items()},
        )

    def warm(self) -> "Lanes":
        """Without what jobs did while they warmed up: a pause then is no pause of their work."""
        is_cold = self.held & (self.age < self.warm_up[:, None])
        if not is_cold.any():
            return self
        return replace(self, held=self.held & ~is_cold, figures=self.figures.without(is_cold))


def warm_up(life_ms: int | None) -> int:
    """Cells at a job's start that are no work yet: whose middle lies in its first ten minutes, and
    first tenth. None: it goes on.
    """
    warm_ms = WARM_UP_MS if life_ms is None else min(WARM_UP_MS, round(WARM_UP_SHARE * life_ms))
    return (warm_ms + CELL_MS // 2) // CELL_MS


def shared(gpu_id: Ints, held: Mask) -> Mask:
    """Lanes x cells: where another lane holds the same GPU too."""
    gpus, gpu = np.unique(gpu_id, return_inverse=True)
    row, cell = np.nonzero(held)
    holders = np.bincount(
        gpu[row] * held.shape[1] + cell, minlength=len(gpus) * held.shape[1]
    ).reshape(len(gpus), held.shape[1])
    is_shared: Mask = held & (holders[gpu] > 1)
    return is_shared
