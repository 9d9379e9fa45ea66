"""The stretches of a window's curves that a verdict rests on: pauses, and spinning at near-idle power. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

LOW = 0.10  # utilisation, as in `util_low_fraction`
MOST = 0.5  # of a step
COLUMNS = ("util_mean", "util_low_fraction", "spin_fraction")
PAUSE, SPINNING = "pause", "spinning"
MAX_MARKS = 200  # drawn; a sawtooth of seconds has no stretch of its own

Values = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Mark:
    """A stretch [start_ms, end_ms) and what it is."""

    start_ms: int
    end_ms: int
    kind: str


def marks(starts_ms: Sequence[int], step_ms: int, columns: Mapping[str, Values]) -> list[Mark]:
    """Steps of which most is a pause, or most spinning, joined; the longest MAX_MARKS in order of time."""
    nothing: Values = [None] * len(starts_ms)
    util, low, spin = (columns.get(name, nothing) for name in COLUMNS)
    kinds = [_kind(*values) for values in zip(util, low, spin, strict=True)]
    found = []
    key: Callable[[int], str] = kinds.__getitem__
    for kind, places in groupby(range(len(kinds)), key):
        several = list(places)
        if kind:
            found.append(Mark(starts_ms[several[0]], starts_ms[several[-1]] + step_ms, kind))
    longest = sorted(found, key=lambda mark: mark.start_ms - mark.end_ms)[:MAX_MARKS]
    return sorted(longest, key=lambda mark: mark.start_ms)


def _kind(util: float | None, low: float | None, spin: float | None) -> str:
    """What most of a step is; "" = neither, or not read."""
    if spin is not None and spin >= MOST:
        return SPINNING
    if low is not None:
        return PAUSE if low >= MOST else ""
    return PAUSE if util is not None and util < LOW else ""
