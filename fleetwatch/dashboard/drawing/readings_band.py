"""The band of a GPU's readings within each step: a mean of 28 % is then seen as bursts. Pure."""

from collections.abc import Sequence

from fleetwatch.dashboard.drawing.figures import Line
from fleetwatch.telemetry.steps import StepSeries

BAND = ("util_min", "util_max")  # of the readings in a window


def readings_band(read: StepSeries) -> tuple[Line, Line] | None:
    """From the lowest to the highest reading of each step; None where these were not read: known
    are both or none.
    """
    ends = list(zip(*(read.columns[name] for name in BAND), strict=True))
    low, high = ([None if None in pair else pair[at] for pair in ends] for at in (0, 1))
    if not is_read(low):
        return None
    return Line("lowest reading", low), Line("lowest to highest", high, "ink-3")


def is_read(values: Sequence[float | None]) -> bool:
    """Whether anything was."""
    return any(value is not None for value in values)
