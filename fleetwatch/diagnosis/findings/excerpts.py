"""A minute of what a finding rests on, window by window, as fine as it is kept: of the single
readings an agent sends what they were, not when.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from fleetwatch.diagnosis.findings.evidence import Evidence
from fleetwatch.diagnosis.judgement.marks import LOW
from fleetwatch.lib.intervals import MINUTE_MS
from fleetwatch.telemetry import selectors as telemetry

COLUMNS = {
    "util_min": "lowest",
    "util_p50": "median",
    "util_max": "highest",
    "util_zero_fraction": "zeros",
    "util_dips": "pauses",
    "util_longest_low_s": "longest_s",
}
Values = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class WindowReadings:
    """What the readings of one window were, as shares; `pauses` are falls from above 70 % to below
    30 %, `longest_s` the longest stretch below 10 %. None = not read.
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
    """The windows of one minute, of so many seconds each."""

    window_s: int
    windows: tuple[WindowReadings, ...]

    @property
    def has_pauses(self) -> bool:
        return any(window.pauses for window in self.windows)

    @property
    def alike(self) -> list[tuple[WindowReadings, int]]:
        """The first of each run of windows that read the same, and how many that are."""
        runs = groupby(self.windows, key=lambda window: replace(window, start_ms=0))
        several = [list(run) for _, run in runs]
        return [(run[0], len(run)) for run in several]

    @property
    def is_idle(self) -> bool:
        """Whether each reading of it was low: a GPU that never works has no pauses either."""
        return all(window.highest is not None and window.highest < LOW for window in self.windows)


def excerpt(seen: Evidence) -> Excerpt | None:
    """The minute of the evidence's window in which there were most pauses; None where nothing of it
    is kept.
    """
    window_s = seen.gpu.node.window_s
    read = telemetry.series(
        seen.gpu, seen.start_ms, seen.end_ms, columns=list(COLUMNS), step_s=window_s
    )
    count = max(1, MINUTE_MS // read.step_ms)
    first = most_pauses(read.columns, count)
    if first is None:
        return None
    windows = [
        WindowReadings(
            read.start_ms[at], **{name: read.columns[of][at] for of, name in COLUMNS.items()}
        )
        for at in range(first, min(first + count, len(read.start_ms)))
    ]
    return Excerpt(window_s, tuple(windows))


def most_pauses(columns: Mapping[str, Values], count: int) -> int | None:
    """Where the `count` windows begin that have the most pauses, of as many those with most
    readings at zero, and the first of equal ones; None where nothing was read.
    """
    if all(value is None for value in columns["util_min"]):
        return None
    starts = range(max(1, len(columns["util_min"]) - count + 1))
    return max(starts, key=lambda at: _pauses(columns, at, count))


def _pauses(columns: Mapping[str, Values], at: int, count: int) -> tuple[int, float, float]:
    """How many windows were read, how many pauses they had, and how much of them was zero."""
    names = ("util_min", "util_dips", "util_zero_fraction")
    parts = [columns[name][at : at + count] for name in names]
    read, pauses, zeros = ([value for value in part if value is not None] for part in parts)
    return len(read), sum(pauses), sum(zeros)
