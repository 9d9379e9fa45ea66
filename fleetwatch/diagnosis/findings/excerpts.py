"""A minute or more of what a finding rests on, window by window, as fine as it is kept: of the
single readings an agent sends what they were, not when.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from fleetwatch.diagnosis.causes import BY_CODE
from fleetwatch.diagnosis.findings.evidence import Evidence
from fleetwatch.diagnosis.findings.gpu_windows import long_pauses, windows_of
from fleetwatch.diagnosis.judgement.marks import LOW
from fleetwatch.lib.intervals import MINUTE_MS
from fleetwatch.telemetry.frames import Frame

COLUMNS = {
    "util_min": "lowest",
    "util_p50": "median",
    "util_max": "highest",
    "util_zero_fraction": "zeros",
    "util_dips": "pauses",
    "util_longest_low_s": "longest_s",
}
LEAST_WINDOWS = 6  # shown, however long they are
Values = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class WindowReadings:
    """What the readings of one window were, as shares; `pauses`: how many began in it, `longest_s`
    the longest stretch below 10 %. None = not read.
    """

    start_ms: int
    lowest: float | None
    median: float | None
    highest: float | None
    zeros: float | None
    pauses: float | None
    longest_s: float | None


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Windows one after the other, of so many seconds each; `are_long`: the pauses counted are
    those of 5 s and more below 10 %, else falls from above 70 % to below 30 %.
    """

    window_s: int
    windows: tuple[WindowReadings, ...]
    are_long: bool = False

    @property
    def begun(self) -> int:
        """How many pauses began in it."""
        return round(sum(window.pauses or 0 for window in self.windows))

    @property
    def minutes(self) -> int:
        return max(1, self.window_s * len(self.windows) // 60)

    @property
    def alike(self) -> list[tuple[WindowReadings, int, int]]:
        """The first of each run of windows that read the same, how many that are, and when they
        end.
        """
        runs = groupby(self.windows, key=lambda window: replace(window, start_ms=0))
        several = [list(run) for _, run in runs]
        return [(run[0], len(run), run[-1].start_ms + self.window_s * 1000) for run in several]

    @property
    def is_idle(self) -> bool:
        """Whether each reading of it was low: a GPU that never works has no pauses either."""
        return all(window.highest is not None and window.highest < LOW for window in self.windows)


def excerpt(cause: str, seen: Evidence) -> Excerpt | None:
    """The minute of the evidence's window in which most pauses began, of the kind that the cause is
    seen by; None where nothing of it is kept.
    """
    read = windows_of(seen.gpu, seen.start_ms, seen.end_ms, list(COLUMNS))
    if not len(read):
        return None
    are_long = BY_CODE[cause].has_rhythm or BY_CODE[cause].rests_long
    columns = {name: _values(read, name) for name in COLUMNS}
    if are_long:
        columns["util_dips"] = _long_begun(read, seen)
    window_ms = int(np.median(read.end_ms - read.start_ms))
    count = max(LEAST_WINDOWS, MINUTE_MS // window_ms)
    first = most_pauses(columns, count)
    if first is None:
        return None
    rows = range(first, min(first + count, len(read)))
    return Excerpt(window_ms // 1000, _windows(read, columns, rows), are_long)


def _windows(read: Frame, columns: Mapping[str, Values], rows: range) -> tuple[WindowReadings, ...]:
    starts_ms = read.start_ms.tolist()
    return tuple(
        WindowReadings(starts_ms[row], **{name: columns[of][row] for of, name in COLUMNS.items()})
        for row in rows
    )


def _long_begun(read: Frame, seen: Evidence) -> list[float | None]:
    """Of each window how many long pauses began in it."""
    begin = {pause.window_ms for pause in long_pauses(seen)}
    return [float(at_ms in begin) for at_ms in read.start_ms.tolist()]


def _values(read: Frame, name: str) -> list[float | None]:
    return [None if np.isnan(value) else value for value in read.columns[name].tolist()]


def most_pauses(columns: Mapping[str, Values], count: int) -> int | None:
    """Where the `count` windows begin that have the most pauses, of as many those that show both
    work and rest, then those with most readings at zero, and the first of equal ones; None where
    nothing was read.
    """
    if all(value is None for value in columns["util_min"]):
        return None
    starts = range(max(1, len(columns["util_min"]) - count + 1))
    return max(starts, key=lambda at: _pauses(columns, at, count))


def _pauses(columns: Mapping[str, Values], at: int, count: int) -> tuple[int, float, bool, float]:
    """How many windows were read, how many pauses they had, whether they show work and rest, and
    how much of them was zero.
    """
    names = ("util_min", "util_max", "util_dips", "util_zero_fraction")
    parts = [columns[name][at : at + count] for name in names]
    lows, highs, pauses, zeros = ([value for value in part if value is not None] for part in parts)
    shows_both = min(lows, default=1) < LOW <= max(highs, default=0)
    return len(lows), sum(pauses), shows_both, sum(zeros)
