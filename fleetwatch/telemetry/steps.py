"""Windows stretched onto equal steps of time, for charts and the series API. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fleetwatch.lib.array_types import Floats, Ints
from fleetwatch.telemetry.heat_cells import ACTIVITY
from fleetwatch.telemetry.window_tables import Table

# Columns that decide which of two windows of one time counts.
SIGNALS = ACTIVITY
# What a step shows of these is no mean.
EXTREMES = {
    "util_max": np.fmax,
    "power_max_w": np.fmax,
    "sm_active_max": np.fmax,
    "ecc_uncorrected": np.fmax,
    "util_min": np.fmin,
    "power_min_w": np.fmin,
}
SUMMED = frozenset({"energy_j", "util_dips"})


@dataclass(frozen=True, slots=True)
class StepSeries:
    """One value per step and column; the step that `start_ms[i]` begins. None: nothing observed."""

    step_ms: int
    start_ms: list[int]
    columns: dict[str, list[float | None]]


@dataclass(frozen=True, slots=True)
class _Pieces:
    """Windows cut at the steps' edges: of which window, into which step, how much of the window."""

    window: Ints
    step: Ints
    share: Floats
    observed_ms: Floats
    is_one_to_one: bool  # each window is one whole step's only one: nothing is to be reduced


def stepped(
    table: Table, *, start_ms: int, end_ms: int, columns: Sequence[str], step_ms: int
) -> StepSeries:
    """The columns over the steps that cover [start_ms, end_ms), from the epoch in multiples of
    `step_ms`.

    A window that crosses an edge counts on both sides by its part of time.
    """
    first = start_ms // step_ms
    count = -(-end_ms // step_ms) - first
    pieces = _cut(table, first=first, count=count, step_ms=step_ms)
    return StepSeries(
        step_ms=step_ms,
        start_ms=[(first + step) * step_ms for step in range(count)],
        columns={
            name: _without_nan(_reduced(name, table[name], pieces, count)) for name in columns
        },
    )


def _cut(table: Table, *, first: int, count: int, step_ms: int) -> _Pieces:
    window, step = _steps_of_windows(table, step_ms)
    is_inside = (step >= first) & (step < first + count)
    window = window[is_inside]
    step = step[is_inside]
    starts = table["start_ms"][window]
    lengths = table["window_ms"][window]
    ends = np.minimum(starts + lengths, (step + 1) * step_ms)
    share = (ends - np.maximum(starts, step * step_ms)) / lengths
    is_one_to_one = bool((share == 1).all() and (step[1:] > step[:-1]).all())
    observed_ms = table["observed_ms"][window] * share
    return _Pieces(window, step - first, share, observed_ms, is_one_to_one)


def _steps_of_windows(table: Table, step_ms: int) -> tuple[Ints, Ints]:
    """(window, step) of each step that a window lies in."""
    low = table["start_ms"] // step_ms
    parts = (table["start_ms"] + table["window_ms"] - 1) // step_ms - low + 1
    window = np.repeat(np.arange(len(parts)), parts)
    return window, low[window] + np.arange(len(window)) - np.repeat(np.cumsum(parts) - parts, parts)


def _reduced(name: str, values: Floats, pieces: _Pieces, count: int) -> Floats:
    is_read = ~np.isnan(values[pieces.window]) & (pieces.observed_ms > 0)
    spread = values[pieces.window[is_read]]
    step = pieces.step[is_read]
    reduced = np.full(count, np.nan)
    if pieces.is_one_to_one:
        reduced[step] = spread
        return reduced
    if name in EXTREMES:
        EXTREMES[name].at(reduced, step, spread)
        return reduced
    weight = (pieces.share if name in SUMMED else pieces.observed_ms)[is_read]
    return _weighted(spread, weight, step, count, is_mean=name not in SUMMED)


def _weighted(values: Floats, weight: Floats, step: Ints, count: int, *, is_mean: bool) -> Floats:
    """The weighted sum or mean of each step's values; NaN where there is none."""
    weights = np.bincount(step, weight, count)
    sums = np.bincount(step, values * weight, count)
    is_filled = weights > 0
    each = sums / np.where(is_filled, weights, 1) if is_mean else sums
    return np.where(is_filled, each, np.nan)


def _without_nan(values: Floats) -> list[float | None]:
    numbers: list[float | None] = values.tolist()
    for place in np.flatnonzero(np.isnan(values)).tolist():
        numbers[place] = None
    return numbers
