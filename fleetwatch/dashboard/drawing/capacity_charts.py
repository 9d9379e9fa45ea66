"""Capacity over time beside what jobs held of it, and by the hour of the week."""

from functools import partial

import numpy as np

from fleetwatch.dashboard.drawing import figures
from fleetwatch.dashboard.drawing.chart import Cell, Chart, Params, heads, text_of
from fleetwatch.dashboard.drawing.figures import Line
from fleetwatch.dashboard.period import Period
from fleetwatch.lib.array_types import Floats, Ints
from fleetwatch.lib.intervals import HOUR_MS, from_ms
from fleetwatch.lib.timeframes import MAX_POINTS
from fleetwatch.planning.model_hours import HOURS, WEEKDAYS, ModelHours, by_clock, total
from fleetwatch.planning.selectors import SUBJECTS, Narrowed, model_hours, whole_hours

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MOST_WITH_DECIMALS = 20


def narrowed_to(params: Params) -> Narrowed:
    """Which GPUs the address asks for."""
    return Narrowed(**{name: params[name] for name in SUBJECTS if params.get(name)})


def over_time(params: Params, period: Period) -> Chart:
    """GPUs that there were, that jobs held and that worked, on the mean of each step."""
    hours = _total(params, period)
    if hours is None:
        return _chart([], [], period)
    size = -(-len(hours.starts_ms) // MAX_POINTS)
    parts = hours.parts
    mean = partial(_means, size=size, of_ms=parts.capacity_ms)
    lines = [
        Line("Capacity", mean(parts.capacity_ms), "ink-3", is_dashed=True),
        Line("Allocated", mean(parts.held_ms)),
        Line("Active", mean(parts.active_ms), "useful"),
    ]
    return _chart(hours.starts_ms[::size].tolist(), lines, period)


def _total(params: Params, period: Period) -> ModelHours | None:
    hours = whole_hours(period.so_far, period.now)
    return total(model_hours(hours, narrowed_to(params))) if hours else None


def _means(gpu_ms: Ints, size: int, of_ms: Ints) -> list[float | None]:
    """GPUs on the mean of so many hours each; None where there was no GPU time (`of_ms`)."""
    return [
        round(float(gpu_ms[at : at + size].mean()) / HOUR_MS, 2)
        if of_ms[at : at + size].any()
        else None
        for at in range(0, len(gpu_ms), size)
    ]


def _chart(starts_ms: list[int], lines: list[Line], period: Period) -> Chart:
    starts = [period.local(from_ms(at_ms)) for at_ms in starts_ms]
    most = max((value or 0 for line in lines for value in line.values), default=0)
    return Chart(
        "GPUs: capacity, allocated, active",
        figures.series(starts, lines, y_format=",.1~f" if most < MOST_WITH_DECIMALS else ",.0f"),
        lambda: heads(period, [f"{line.name} GPUs" for line in lines]),
        lambda: list(zip(map(text_of, starts), *(line.values for line in lines), strict=True)),
    )


def by_hour_of_week(params: Params, period: Period) -> Chart:
    """GPUs that stood free or idle, on the mean, by weekday and hour of the page's clock."""
    hours = _total(params, period)
    means = np.full((WEEKDAYS, HOURS), np.nan)
    if hours is not None:
        means = by_clock(hours.unused_ms, hours, period.clock)
    cells = _cells(means)
    return Chart(
        f"GPUs free or idle, average by hour of the week ({period.clock})",
        figures.clock_map(DAYS, [f"{hour:02d}:00" for hour in range(HOURS)], cells),
        lambda: ["Weekday", *(f"{hour:02d}:00" for hour in range(HOURS))],
        partial(_rows, cells),
    )


def _cells(means: Floats) -> list[list[float | None]]:
    return [[None if np.isnan(each) else round(each, 2) for each in row] for row in means.tolist()]


def _rows(cells: list[list[float | None]]) -> list[list[Cell]]:
    return [[day, *row] for day, row in zip(DAYS, cells, strict=True)]
