"""The fleet's heat map: GPU x time, by state (from the ledger) or by a metric (from the day matrices)."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
from django.db import connection
from numpy.typing import NDArray

from fleetwatch.dashboard import bars, words
from fleetwatch.dashboard.figures import HeatMap
from fleetwatch.dashboard.selectors import physical_gpus, stretches
from fleetwatch.inventory.models import GPU
from fleetwatch.lib.intervals import HOUR_MS, Interval, from_ms
from fleetwatch.lib.sql import read_statement
from fleetwatch.telemetry import cells
from fleetwatch.telemetry.models import DayMatrix

MAX_COLUMNS = 300
LEAST_COLUMNS = 96
MAX_CELLS = 100_000  # of a large fleet fewer columns are drawn: a browser draws 1000 x 96 in a third of a second
FINE_HOURS = 24  # up to a day runs are read, for steps finer than the ledger's hours
FINE_STEPS_MS = tuple(minutes * 60_000 for minutes in (1, 2, 5, 15, 30))
METRIC_STEPS_MS = tuple(count * cells.CELL_MS for count in (1, 2, 3, 6))
COARSE_STEPS_MS = tuple(hours * HOUR_MS for hours in (1, 2, 3, 4, 6, 12, 24))

Row = list[float | None]
Bytes = NDArray[np.uint8]


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
_STATE_MAP = read_statement(Path(__file__).parent / "sql" / "state_map.sql")
_INDEX = {name: index for index, name in enumerate(words.NAMES)}


def heat_map(metric: str, interval: Interval, zone: ZoneInfo) -> HeatMap:
    """One row per physical GPU, one column per step; a cell nobody knows is None."""
    gpus = physical_gpus()
    step_ms = _step_ms(metric, interval, len(gpus))
    first_ms = interval.start_ms - interval.start_ms % step_ms
    count = -(-(interval.end_ms - first_ms) // step_ms)
    covered = Interval(from_ms(first_ms), from_ms(first_ms + count * step_ms))
    if metric != "state":
        rows = _metric_cells(metric, gpus, covered, count)
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


def _metric_cells(metric: str, gpus: list[GPU], interval: Interval, count: int) -> dict[int, Row]:
    """Means of the day matrices' five-minute cells per step, as ratios; power by the GPU's limit (unknown limit: unknown)."""
    step = next(each.step for each in cells.METRICS if each.name == metric)
    known = {gpu.pk: gpu for gpu in gpus}
    first_day_ms = interval.start_ms // cells.DAY_MS * cells.DAY_MS
    width = -(-(interval.end_ms - first_day_ms) // cells.DAY_MS) * cells.CELLS_PER_DAY
    lines: dict[int, Bytes] = {}
    days = DayMatrix.objects.filter(metric=metric, day__gte=from_ms(first_day_ms).date(), day__lte=interval.end.date())
    for day in days.iterator(chunk_size=500):
        place = (day.day - from_ms(first_day_ms).date()).days * cells.CELLS_PER_DAY
        for gpu_id, line in zip(day.gpu_ids, np.frombuffer(bytes(day.cells), np.uint8).reshape(-1, cells.CELLS_PER_DAY), strict=True):
            if gpu_id in known and place < width:
                lines.setdefault(gpu_id, np.full(width, cells.MISSING, np.uint8))[place : place + cells.CELLS_PER_DAY] = line
    per_column = interval.duration_ms // count // cells.CELL_MS
    skip = (interval.start_ms - first_day_ms) // cells.CELL_MS
    return {
        gpu_id: _means(line[skip : skip + count * per_column], per_column, scale)
        for gpu_id, line in lines.items()
        if (scale := _scale(metric, known[gpu_id], step)) is not None
    }


def _scale(metric: str, gpu: GPU, step: float) -> float | None:
    """What one step of a byte is worth as a ratio."""
    if metric != "power":
        return step
    return step / gpu.power_limit_w if gpu.power_limit_w else None


def _means(line: Bytes, per_column: int, scale: float) -> Row:
    """The mean of each `per_column` known cells; None where none of them is known."""
    table = line.reshape(-1, per_column).astype(np.float64)
    seen = table != cells.MISSING
    sums, counts = np.where(seen, table, 0).sum(axis=1), seen.sum(axis=1)
    return [round(float(total) * scale / int(number), 4) if number else None for total, number in zip(sums, counts, strict=True)]


def _states_from_runs(gpus: list[GPU], interval: Interval, count: int) -> dict[int, Row]:
    runs = stretches([gpu.pk for gpu in gpus], interval)
    span = {"start_ms": interval.start_ms, "end_ms": interval.end_ms}
    return {
        gpu_id: [None if state is None else _INDEX[state] for state in bars.cells(found, count=count, **span)]
        for gpu_id, found in runs.items()
    }


def _states_from_entries(gpus: list[GPU], interval: Interval, count: int) -> dict[int, Row]:
    """The state with most GPU time per GPU and step, from the ledger's hours (an instance's time is its parent's)."""
    rows: dict[int, Row] = {gpu.pk: [None] * count for gpu in gpus}
    step_ms = interval.duration_ms // count
    values: dict[str, datetime | int] = {"start": interval.start, "end": interval.end, "start_ms": interval.start_ms, "step_ms": step_ms}
    with connection.cursor() as cursor:
        cursor.execute(_STATE_MAP, values)
        for gpu_id, step, state in cursor.fetchall():
            if gpu_id in rows:
                rows[gpu_id][step] = _INDEX[state]
    return rows
