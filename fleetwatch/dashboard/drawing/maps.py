"""The fleet's heat map: GPU x time, by state (from the ledger) or by a metric (from the day
matrices).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from fleetwatch.dashboard import words
from fleetwatch.dashboard.drawing.figures import HeatMap
from fleetwatch.dashboard.drawing.grid import Grid
from fleetwatch.dashboard.selectors import physical_gpu_names, states
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.totals import EVERYTHING, Scope
from fleetwatch.ledger import state_days
from fleetwatch.lib.intervals import HOUR_MS, Interval, from_ms
from fleetwatch.telemetry import matrices
from fleetwatch.telemetry.heat_cells import CELL_MS

MAX_COLUMNS = 300
LEAST_COLUMNS = 96
# of a large fleet fewer columns are drawn: a browser draws 1000 x 96 in a third of a second
MAX_CELLS = 100_000
FINE_HOURS = 24  # up to a day runs are read, for steps finer than the ledger's hours
FINE_STEPS_MS = tuple(minutes * 60_000 for minutes in (1, 2, 5, 15, 30))
METRIC_STEPS_MS = tuple(count * CELL_MS for count in (1, 2, 3, 6))
COARSE_STEPS_MS = tuple(hours * HOUR_MS for hours in (1, 2, 3, 4, 6, 12, 24))

THOUSAND = 1000
# the values of cells; the last one is what nobody knows
THOUSANDTHS = (*(number / THOUSAND for number in range(THOUSAND + 1)), None)
STATES = (*range(len(words.NAMES)), None)


@dataclass(frozen=True, slots=True)
class MapMetric:
    """What a cell of the map shows. Metrics other than the state are ratios, 0 to 1."""

    name: str
    label: str
    legend: str


METRICS = {
    metric.name: metric
    for metric in (
        MapMetric("state", "State", "the state that took most of the cell"),
        MapMetric("util", "Utilisation", "share of time with a kernel running"),
        MapMetric("power", "Power", "board power ÷ power limit"),
        MapMetric("memory", "Memory", "memory used ÷ memory"),
    )
}


def heat_map(
    metric: str, interval: Interval, zone: ZoneInfo, *, scope: Scope = EVERYTHING
) -> HeatMap:
    """One row per physical GPU, with time in the scope where there is one, one column per step; a
    cell nobody knows is None.
    """
    gpus = physical_gpu_names()
    if scope != EVERYTHING:
        in_scope = {group.key for group in costs.totals_by(interval, "gpu", scope=scope)}
        gpus = [gpu for gpu in gpus if gpu.uuid in in_scope]
    step_ms = _step_ms(metric, interval, len(gpus))
    first_ms = interval.start_ms - interval.start_ms % step_ms
    starts_ms = range(first_ms, interval.end_ms, step_ms)
    return HeatMap(
        labels=[f"{gpu.node__name} · {_number(gpu)}" for gpu in gpus],
        starts=[from_ms(start_ms).astimezone(zone) for start_ms in starts_ms],
        cells=_cells(metric, [gpu.pk for gpu in gpus], starts_ms),
        links=[f"/gpus/{gpu.uuid}" for gpu in gpus],
    )


def _cells(metric: str, gpu_ids: Sequence[int], starts_ms: range) -> Grid:
    count = len(starts_ms)
    step_ms = starts_ms.step
    covered = Interval(from_ms(starts_ms.start), from_ms(starts_ms.start + count * step_ms))
    if metric != "state":
        return _ratios(matrices.cells(metric, gpu_ids, covered, count))
    if step_ms < HOUR_MS:
        return Grid(states(gpu_ids, covered, count), STATES)
    # the state with most GPU time per GPU and step, from the ledger's hours (an instance's time is
    # its parent's)
    return Grid(state_days.dominant(gpu_ids, covered, step_ms=step_ms), STATES)


def _number(gpu: Any) -> str:
    """Its index, or the beginning of its UUID."""
    return gpu.uuid[:12] if gpu.index is None else str(gpu.index)


def _step_ms(metric: str, interval: Interval, gpu_count: int) -> int:
    """The finest step with no more columns than the fleet's size allows: metrics come in cells of 5
    minutes, states from runs or hours.
    """
    fine = (
        METRIC_STEPS_MS
        if metric != "state"
        else FINE_STEPS_MS
        if interval.duration_ms <= FINE_HOURS * HOUR_MS
        else ()
    )
    steps_ms = (*fine, *COARSE_STEPS_MS)
    columns = max(LEAST_COLUMNS, min(MAX_COLUMNS, MAX_CELLS // max(1, gpu_count)))
    return next((step for step in steps_ms if interval.duration_ms <= step * columns), steps_ms[-1])


def _ratios(ratios: NDArray[np.float64]) -> Grid:
    """Ratios to a tenth of a percent: a browser need not read more digits than it draws."""
    thousandths = np.where(np.isnan(ratios), -1, np.rint(ratios * THOUSAND))
    return Grid(thousandths.astype(np.int64), THOUSANDTHS)
