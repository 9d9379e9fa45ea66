"""Windows stretched onto equal steps of time, for charts and the series API. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleetwatch.telemetry.heat_cells import ACTIVITY
from fleetwatch.telemetry.window_tables import Table

# Columns that decide which of two windows of one time counts.
SIGNALS = ACTIVITY
# What a step shows of these is no mean.
LARGEST = frozenset({"util_max", "power_max_w", "sm_active_max", "ecc_uncorrected"})
SMALLEST = frozenset({"util_min", "power_min_w"})
SUMMED = frozenset({"energy_j", "util_dips"})

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
    starts = table["start_ms"]
    lengths = table["window_ms"]
    ends = starts + lengths
    low = starts // step_ms
    high = (ends - 1) // step_ms
    parts = high - low + 1
    window = np.repeat(np.arange(len(starts)), parts)
    step = low[window] + np.arange(len(window)) - np.repeat(np.cumsum(parts) - parts, parts)
    overlap = np.minimum(ends[window], (step + 1) * step_ms) - np.maximum(
        starts[window], step * step_ms
    )
    share = overlap / lengths[window]
    inside = (step >= first) & (step < first + count)
    window = window[inside]
    step = step[inside] - first
    share = share[inside]
    is_one_to_one = bool((share == 1).all() and (step[1:] > step[:-1]).all())
    return _Pieces(window, step, share, table["observed_ms"][window] * share, is_one_to_one)


def _reduced(name: str, values: Floats, pieces: _Pieces, count: int) -> Floats:
    spread = values[pieces.window]
    read = ~np.isnan(spread) & (pieces.observed_ms > 0)
    spread = spread[read]
    step = pieces.step[read]
    reduced = np.full(count, np.nan)
    if pieces.is_one_to_one:
        reduced[step] = spread
        return reduced
    if name in LARGEST or name in SMALLEST:
        return _extremes(spread, step, count, largest=name in LARGEST)
    weight = pieces.share[read] if name in SUMMED else pieces.observed_ms[read]
    total = np.bincount(step, weights=spread * weight, minlength=count)
    weights = np.bincount(step, weights=weight, minlength=count)
    if name in SUMMED:
        reduced[weights > 0] = total[weights > 0]
    else:
        np.divide(total, weights, out=reduced, where=weights > 0)
    return reduced


def _extremes(values: Floats, step: Ints, count: int, *, largest: bool) -> Floats:
    extremes = np.full(count, -np.inf if largest else np.inf)
    (np.maximum if largest else np.minimum).at(extremes, step, values)
    extremes[np.isinf(extremes)] = np.nan
    return extremes


def _without_nan(values: Floats) -> list[float | None]:
    numbers: list[float | None] = values.tolist()
    for place in np.flatnonzero(np.isnan(values)).tolist():
        numbers[place] = None
    return numbers
