"""Long pauses: stretches of five seconds and more without work, joined over windows. Pure numpy.

A GPU pauses while its utilisation is low, and while it spins: it shows a busy kernel and draws no
power, waiting for another rank.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np

from fleetwatch.ledger.judgement.observations import Floats, Ints, Mask, Windows

LOW = 0.10  # utilisation below which a GPU pauses (the wire's util_low_fraction)
LONG_S = 5.0  # a shorter pause is a step's own rhythm
WHOLE = 0.9  # share of a window from which it is one pause from end to end
SAME_MS = 1_000  # windows this close follow each other

COLUMNS = ("util_mean", "util_longest_low_s", "util_dips", "spin_fraction")

LOW_S = "long_low_s"  # seconds of long pauses
ONSETS = "long_onsets"  # how many began
FIRST_ONSET = "long_first_onset_s"  # seconds since the epoch
LAST_ONSET = "long_last_onset_s"
INTERVALS = "long_interval_s"  # sum of the times from onset to onset within the cell
INTERVALS_SQUARED = "long_interval_s2"
LONGEST = "long_longest_s"  # the longest pause that ended here or still goes on
# Of the last window that starts there, of which the next one's pause may be a part:
LAST_START = "last_start_s"  # seconds since the epoch
SO_FAR = "long_so_far_s"  # how long its pause is, with what it continues
FIGURES = (
    LOW_S,
    ONSETS,
    FIRST_ONSET,
    LAST_ONSET,
    INTERVALS,
    INTERVALS_SQUARED,
    LONGEST,
    LAST_START,
    SO_FAR,
)


@dataclass(frozen=True, slots=True)
class Before:
    """Of GPUs, ascending, when the last known window of each began and how long its pause was by
    then (SO_FAR).
    """

    gpu_ids: Ints
    start_ms: Ints
    so_far_s: Floats

    def of(self, windows: Windows) -> Floats:
        """SO_FAR of those windows; NaN for others."""
        row = np.searchsorted(self.gpu_ids, windows.gpu_id)
        is_it = (np.append(self.gpu_ids, -1)[row] == windows.gpu_id) & (
            np.append(self.start_ms, -1)[row] == windows.start_ms
        )
        return np.where(is_it, np.append(self.so_far_s, np.nan)[row], np.nan)


NOTHING = Before(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))


def together(several: Sequence[Before]) -> Before:
    """What is known of several nodes' GPUs."""
    whole = [
        np.concatenate(values)
        for values in zip(*(astuple(one) for one in (NOTHING, *several)), strict=True)
    ]
    order = np.argsort(whole[0])
    return Before(*(values[order] for values in whole))


def of(
    windows: Windows, place: Ints, size: int, *, began: Ints, before: Before = NOTHING
) -> dict[str, Floats]:
    """FIGURES per place (a flat array of `size`); NaN where no window with a place tells of
    utilisation.

    `place` is each window's; -1 = only context. `began`: also of those in which nothing was
    observed. Onsets are NaN where none is.
    """
    low_s, is_known = _low_seconds(windows)
    is_long = low_s >= LONG_S
    known_s = before.of(windows)
    continues = _continues(windows, low_s, is_long, known_s)
    so_far_s = _so_far(low_s, continues, known_s)
    onset = is_long & ~continues
    seconds = windows.start_ms / 1000
    here = place >= 0
    figures = {
        LOW_S: _sums(np.where(is_long, low_s, 0.0), place, here & is_known, size),
        ONSETS: _sums(onset.astype(np.float64), place, here & is_known, size),
        LONGEST: _maxima(so_far_s, place, here & is_long, size),
        LAST_START: _lasts(seconds, began, size),
        SO_FAR: _lasts(so_far_s, began, size),
    }
    return figures | _intervals(place[onset & here], seconds[onset & here], size)


def _low_seconds(windows: Windows) -> tuple[Floats, Mask]:
    """Seconds of each window's longest pause (of spinning: all of it), and whether utilisation was
    read at all.
    """
    length_s = (windows.end_ms - windows.start_ms) / 1000
    nan = np.full(len(length_s), np.nan)
    mean = windows.columns.get("util_mean", nan)
    longest = windows.columns.get("util_longest_low_s", nan)
    # without the driver's buffer a window is a pause or it is not
    low_s = np.where(np.isnan(longest), np.where(mean < LOW, length_s, 0.0), longest)
    low_s = np.fmax(low_s, windows.columns.get("spin_fraction", nan) * length_s)
    return low_s, ~np.isnan(longest) | ~np.isnan(mean)


def _continues(windows: Windows, low_s: Floats, is_long: Mask, known_s: Floats) -> Mask:
    """Whether a window's pause goes on from the window before it: one of the two is all pause, or
    neither dips beside it.

    Where `known_s`, its pause up to and with it, is known, that tells.
    """
    count = len(low_s)
    if count == 0:
        return np.zeros(0, dtype=bool)
    length_s = (windows.end_ms - windows.start_ms) / 1000
    is_whole = low_s >= WHOLE * length_s
    dips = np.nan_to_num(windows.columns.get("util_dips", np.zeros(count)))
    continues = np.zeros(count, dtype=bool)
    follows = (windows.gpu_id[1:] == windows.gpu_id[:-1]) & (
        np.abs(windows.start_ms[1:] - windows.end_ms[:-1]) <= SAME_MS
    )
    joined = is_whole[1:] | is_whole[:-1] | (dips[1:] + dips[:-1] <= 1)
    continues[1:] = is_long[1:] & is_long[:-1] & follows & joined
    is_known = ~np.isnan(known_s)
    # what went on is longer by a long pause at least
    continues = np.where(is_known, known_s > low_s + LONG_S / 2, continues)
    return _ended_once(continues, is_whole, is_known)


def _ended_once(continues: Mask, is_whole: Mask, is_known: Mask) -> Mask:
    """A window that is paused in part ends a pause or begins one, not both: of such windows in a
    row every second one begins anew.
    """
    is_after_part = continues & ~is_known
    is_after_part[1:] &= ~is_whole[:-1]
    place = np.arange(len(continues))
    last_other = np.maximum.accumulate(np.where(is_after_part, 0, place))
    goes_on = (place - last_other + continues[last_other]) % 2 == 1
    return np.where(is_after_part, goes_on, continues)


def _so_far(low_s: Floats, continues: Mask, known_s: Floats) -> Floats:
    """Seconds of each pause up to and with its window; `known_s` where that is known, NaN
    elsewhere.
    """
    is_known = ~np.isnan(known_s)
    low_s, continues = np.where(is_known, known_s, low_s), continues & ~is_known
    total = np.cumsum(low_s)
    before = np.where(~continues, total - low_s, -np.inf)
    return total - np.maximum.accumulate(before) if len(total) else total


def _sums(values: Floats, place: Ints, use: Mask, size: int) -> Floats:
    count = np.bincount(place[use], minlength=size)
    return np.where(count > 0, np.bincount(place[use], weights=values[use], minlength=size), np.nan)


def _maxima(values: Floats, place: Ints, use: Mask, size: int) -> Floats:
    found = np.zeros(size)
    np.maximum.at(found, place[use], values[use])
    return found


def _lasts(values: Floats, place: Ints, size: int) -> Floats:
    """The last value of each place; NaN where none is."""
    found = np.full(size, np.nan)
    found[place[place >= 0]] = values[place >= 0]
    return found


def _intervals(place: Ints, seconds: Floats, size: int) -> dict[str, Floats]:
    """Of onsets, sorted by GPU and time: the first and last of each place, and the times
    between.
    """
    first, last = np.full(size, np.nan), np.full(size, np.nan)
    first[place[::-1]] = seconds[::-1]
    last[place] = seconds
    same = place[1:] == place[:-1]
    between = np.where(same, np.diff(seconds), 0.0)
    return {
        FIRST_ONSET: first,
        LAST_ONSET: last,
        INTERVALS: np.bincount(place[1:], weights=between, minlength=size),
        INTERVALS_SQUARED: np.bincount(place[1:], weights=between * between, minlength=size),
    }
