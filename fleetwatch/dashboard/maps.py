"""The fleet's heat map: GPU x time, by state (from the ledger) or by a metric (from the day matrices)."""

from dataclasses import dataclass
from datetime import timedelta
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from fleetwatch.dashboard.figures import HeatMap
from fleetwatch.dashboard.selectors import physical_gpus, states
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger import state_days
from fleetwatch.lib.intervals import HOUR_MS, Interval, from_ms
from fleetwatch.telemetry import matrices
from fleetwatch.telemetry.cells import CELL_MS

MAX_COLUMNS = 300
LEAST_COLUMNS = 96
MAX_CELLS = 100_000  # of a large fleet fewer columns are drawn: a browser draws 1000 x 96 in a third of a second
FINE_HOURS = 24  # up to a day runs are read, for steps finer than the ledger's hours
FINE_STEPS_MS = tuple(minutes * 60_000 for minutes in (1, 2, 5, 15, 30))
METRIC_STEPS_MS = tuple(count * CELL_MS for count in (1, 2, 3, 6))
COARSE_STEPS_MS = tuple(hours * HOUR_MS for hours in (1, 2, 3, 4, 6, 12, 24))

Row = list[float | None]


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
_GAP = -1.0  # no ratio: what nobody observed


def heat_map(metric: str, interval: Interval, zone: ZoneInfo) -> HeatMap:
    """One row per physical GPU, one column per step; a cell nobody knows is None."""
    gpus = physical_gpus()
    step_ms = _step_ms(metric, interval, len(gpus))
    first_ms = interval.start_ms - interval.start_ms % step_ms
    count = -(-(interval.end_ms - first_ms) // step_ms)
    covered = Interval(from_ms(first_ms), from_ms(first_ms + count * step_ms))
    if metric != "state":
        rows = _ratios(metric, gpus, covered, count)
    elif step_ms < HOUR_MS:
        rows = _states_from_runs(gpus, covered, count)
    else:
        rows = _states_from_entries(gpus, covered, count)
    return HeatMap(
        labels=[f"{gpu.node.name} · {gpu.index if gpu.index is not None else gpu.uuid[:12]}" for gpu in gpus],
        starts=[(covered.start + timedelta(milliseconds=step_ms * index)).astimezone(zone) for index in range(count)],
        cells=[rows.get(gpu.pk, [None] * count) for gpu in gpus],
        links=[f"/gpus/{gpu.uuid}" for gpu in gpus],
    )


def _step_ms(metric: str, interval: Interval, gpu_count: int) -> int:
    """The finest step with no more columns than the fleet's size allows: metrics come in cells of 5 minutes, states from runs or hours."""
    fine = METRIC_STEPS_MS if metric != "state" else FINE_STEPS_MS if interval.duration_ms <= FINE_HOURS * HOUR_MS else ()
    steps_ms = (*fine, *COARSE_STEPS_MS)
    columns = max(LEAST_COLUMNS, min(MAX_COLUMNS, MAX_CELLS // max(1, gpu_count)))
    return next((step for step in steps_ms if interval.duration_ms <= step * columns), steps_ms[-1])


def _ratios(metric: str, gpus: list[GPU], interval: Interval, count: int) -> dict[int, Row]:
    """The day matrices' means, to a tenth of a percent: a browser need not read more digits than it draws."""
    found = matrices.cells(metric, gpus, interval, count)
    # means of a few bytes: of 100,000 cells some thousand differ, and each of these is rounded once
    values, place = np.unique(np.where(np.isnan(found), _GAP, found), return_inverse=True)
    shown = np.array([None if value == _GAP else round(value, 3) for value in values.tolist()], dtype=object)
    return {gpu.pk: row for gpu, row in zip(gpus, shown[place].reshape(found.shape).tolist(), strict=True)}


def _states_from_runs(gpus: list[GPU], interval: Interval, count: int) -> dict[int, Row]:
    return _known(gpus, states([gpu.pk for gpu in gpus], interval, count))


def _states_from_entries(gpus: list[GPU], interval: Interval, count: int) -> dict[int, Row]:
    """The state with most GPU time per GPU and step, from the ledger's hours (an instance's time is its parent's)."""
    return _known(gpus, state_days.dominant([gpu.pk for gpu in gpus], interval, step_ms=interval.duration_ms // count))


def _known(gpus: list[GPU], found: NDArray[np.int64]) -> dict[int, Row]:
    known = found.astype(object)
    known[found < 0] = None
    return {gpu.pk: row for gpu, row in zip(gpus, known.tolist(), strict=True)}
