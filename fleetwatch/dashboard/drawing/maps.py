"""What maps of GPUs x time show: states and dollars of the ledger, readings of day matrices."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np

from fleetwatch.dashboard.drawing import grid
from fleetwatch.dashboard.drawing.clock_steps import ClockSteps
from fleetwatch.dashboard.drawing.grid import Floats, Ints, Numbers
from fleetwatch.dashboard.drawing.others_time import names_jobs, others_cells
from fleetwatch.dashboard.selectors import states
from fleetwatch.figures.gpu_dollars import covered_shares, dollars, step_edges
from fleetwatch.figures.packed_spans import Bools
from fleetwatch.figures.totals import Scope
from fleetwatch.ledger.dominant_states import dominant
from fleetwatch.lib.intervals import HOUR_MS, Interval
from fleetwatch.telemetry import matrices
from fleetwatch.telemetry.heat_cells import CELL_MS, DAY_MS

MAX_COLUMNS = 300
LEAST_COLUMNS = 96
UNKNOWN = {"f": np.nan, "i": -1}  # by the kind of numbers
# of a large fleet fewer columns are drawn: a browser draws 1000 x 96 in a third of a second
MAX_CELLS = 100_000
FINE_HOURS = 24  # up to a day runs are read, for steps finer than the ledger's hours,
FINE_GPU_HOURS = 8000  # and of so many: of 1,000 GPUs for six hours, as they are read in time
FINE_STEPS_MS = tuple(minutes * 60_000 for minutes in (1, 2, 5, 15, 30))
METRIC_STEPS_MS = tuple(count * CELL_MS for count in (1, 2, 3, 6))
COARSE_STEPS_MS = tuple(hours * HOUR_MS for hours in (1, 2, 3, 4, 6, 12, 24))
HOURLY_DAYS = 3  # up to so many days dollars are of hours, then of days


@dataclass(frozen=True, slots=True)
class MapMetric:
    """What a cell of a map shows: the state, a ratio from 0 to 1, or dollars."""

    name: str
    label: str
    legend: str
    is_money: bool = False


METRICS = {
    metric.name: metric
    for metric in (
        MapMetric("state", "State", "the state with the most time"),
        MapMetric("util", "Utilisation", "share of time with a kernel running"),
        MapMetric("power", "Power", "board power ÷ power limit"),
        MapMetric("memory", "Memory", "memory used ÷ memory"),
        MapMetric("cost", "Cost", "dollars", is_money=True),
        MapMetric("waste", "Waste", "dollars wasted (certain and probable)", is_money=True),
    )
}


@dataclass(frozen=True, slots=True)
class GPUCells:
    """GPUs x steps between `edges` (one more than steps): the bytes that are drawn (grid.py), and
    what they are made of, asked for where it is told: ratios or dollars with NaN, or places of
    states in words.SHOWN with -1, for what nobody knows. Of dollars `most` is what the strongest
    colour stands for.
    """

    edges: Sequence[datetime]
    drawn: Numbers
    values: Callable[[], Floats | Ints]
    most: float = 1.0

    def without(self, others: Bools) -> "GPUCells":
        """The same, but for these cells, of which nothing is shown."""
        drawn = np.where(others, np.uint8(grid.UNKNOWN), self.drawn)
        return replace(self, drawn=drawn, values=lambda: _blanked(self.values(), others))


def _blanked(values: Floats | Ints, others: Bools) -> Floats | Ints:
    return np.where(others, UNKNOWN[values.dtype.kind], values)


def most(metric: str, values: Floats | Ints) -> float:
    """What the strongest colour stands for: all of a ratio, the dearest cell of dollars."""
    if not METRICS[metric].is_money:
        return 1.0
    return float(np.nanmax(values, initial=0.0))


def unit(interval: Interval) -> str:
    """What a cell of dollars is of."""
    return f"a GPU-{_step(interval)}"


def digits(metric: str) -> int:
    """To which a value is worth telling."""
    return 6 if METRICS[metric].is_money else 3


def columns_of(metric: str, interval: Interval, gpu_count: int) -> int:
    """How many steps a map of so many GPUs has over the interval, about."""
    if METRICS[metric].is_money:
        return interval.duration_ms // (HOUR_MS if _step(interval) == "hour" else DAY_MS) + 1
    return interval.duration_ms // _step_ms(metric, interval, gpu_count) + 1


def cells_of(
    metric: str, gpus: Sequence[Any], interval: Interval, scope: Scope, *, gpu_count: int
) -> GPUCells:
    """Over time, in the finest steps that a map of so many GPUs allows, what the scope names. GPUs
    are rows with pk and uuid.
    """
    if METRICS[metric].is_money:
        return _dollar_cells(metric, gpus, interval, scope)
    edges = _edges(interval, _step_ms(metric, interval, gpu_count))
    covered = Interval(edges[0], edges[-1])
    cells = _cells(metric, gpus, edges, covered)
    if not names_jobs(scope):
        return cells
    return cells.without(others_cells(gpus, covered, len(edges) - 1, scope))


def _dollar_cells(metric: str, gpus: Sequence[Any], interval: Interval, scope: Scope) -> GPUCells:
    """Coloured by what a whole step would be at the pace of the part that there is: the first and
    the last would else look cheap.
    """
    step = _step(interval)
    usd = _dollars(metric, gpus, interval, scope, step)
    machines = Scope(node=scope.node, gpu_model=scope.gpu_model)
    shares = covered_shares([gpu.uuid for gpu in gpus], interval, step=step, scope=machines)
    paces = usd / np.where(shares > 0, shares, 1.0)
    dearest = most(metric, paces)
    drawn = grid.of_shares(paces, dearest)
    return GPUCells(step_edges(interval, step), drawn, lambda: usd, dearest)


def _cells(metric: str, gpus: Sequence[Any], edges: ClockSteps, covered: Interval) -> GPUCells:
    """Of everybody: states, or readings."""
    if metric == "state":
        shown = _states(gpus, covered, edges.steps)
        return GPUCells(edges, grid.of_places(shown), lambda: shown)
    gpu_ids = [gpu.pk for gpu in gpus]
    shades = matrices.shades(metric, gpu_ids, covered, edges.steps)
    return GPUCells(edges, shades, partial(matrices.cells, metric, gpu_ids, covered, edges.steps))


def _edges(interval: Interval, step_ms: int) -> ClockSteps:
    """Of whole steps, from the one in which it begins to that in which it ends."""
    first_ms = interval.start_ms - interval.start_ms % step_ms
    count = -(-(interval.end_ms - first_ms) // step_ms)
    return ClockSteps(first_ms, step_ms, count, UTC)


def _step(interval: Interval) -> str:
    """Of dollars."""
    return "hour" if interval.duration_ms <= HOURLY_DAYS * DAY_MS else "day"


def in_one(metric: str, gpus: Sequence[Any], interval: Interval, scope: Scope) -> Floats | Ints:
    """Of each GPU what the whole interval shows, as one cell."""
    if METRICS[metric].is_money:
        return _dollars(metric, gpus, interval, scope, None)[:, 0]
    if names_jobs(scope):
        cells = cells_of(metric, gpus, interval, scope, gpu_count=len(gpus)).values()
        return np.array([_most_or_mean(row) for row in cells])
    covered = interval if _is_fine(interval, len(gpus)) else interval.outward_to_hours()
    if metric == "state":
        return _states(gpus, covered, 1)[:, 0]
    return matrices.cells(metric, [gpu.pk for gpu in gpus], covered, 1)[:, 0]


def _most_or_mean(row: Floats | Ints) -> float:
    """The state that most of the cells show, or the mean of readings, of those that are known."""
    shown = row[row >= 0]
    if row.dtype.kind == "f":
        return float(shown.mean()) if len(shown) else np.nan
    return int(np.bincount(shown).argmax()) if len(shown) else -1


def _is_fine(interval: Interval, gpu_count: int) -> bool:
    """Whether states are read from runs, to the millisecond; else from the ledger's hours."""
    hours = interval.duration_ms / HOUR_MS
    return hours <= FINE_HOURS and hours * gpu_count <= FINE_GPU_HOURS


def _dollars(
    metric: str, gpus: Sequence[Any], interval: Interval, scope: Scope, step: str | None
) -> Floats:
    uuids = [gpu.uuid for gpu in gpus]
    return dollars(uuids, interval, step=step, wasted=metric == "waste", scope=scope)


def _states(gpus: Sequence[Any], covered: Interval, count: int) -> Ints:
    """GPUs x equal steps."""
    gpu_ids = [gpu.pk for gpu in gpus]
    step_ms = covered.duration_ms // count
    if step_ms < HOUR_MS or _is_fine(covered, len(gpus)):
        return states(gpu_ids, covered, count)
    # the state with most GPU time per GPU and step, from the ledger's hours (an instance's time is
    # its parent's)
    return dominant(gpu_ids, covered, step_ms=step_ms)


def _step_ms(metric: str, interval: Interval, gpu_count: int) -> int:
    """The finest step with no more columns than the fleet's size allows: metrics come in cells of 5
    minutes, states from runs or hours.
    """
    fine = (
        METRIC_STEPS_MS
        if metric != "state"
        else FINE_STEPS_MS
        if _is_fine(interval, gpu_count)
        else ()
    )
    steps_ms = (*fine, *COARSE_STEPS_MS)
    columns = max(LEAST_COLUMNS, min(MAX_COLUMNS, MAX_CELLS // max(1, gpu_count)))
    return next((step for step in steps_ms if interval.duration_ms <= step * columns), steps_ms[-1])
