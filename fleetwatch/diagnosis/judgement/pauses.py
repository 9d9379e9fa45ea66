"""Long pauses: stretches of five seconds and more without work, joined over windows. Pure numpy.

A GPU pauses while its utilisation is low, and while it spins: it shows a busy kernel and draws no
power, waiting for another rank. Quiet runs are those of the ledger: windows in a row that do next
to nothing, which a moment of work ends that a pause goes on over.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np

from fleetwatch.diagnosis.judgement.array_tools import rows_among
from fleetwatch.diagnosis.judgement.window_places import Places
from fleetwatch.ledger.judgement.activity import busiest_engine
from fleetwatch.ledger.judgement.observations import Columns, Floats, Ints, Mask, Windows

LOW = 0.10  # utilisation below which a GPU pauses (the wire's util_low_fraction)
LONG_S = 5.0  # a shorter pause is a step's own rhythm
WHOLE = 0.9  # share of a window from which it is one pause from end to end
SAME_MS = 1_000  # windows this close follow each other
QUIET = 0.02  # activity up to which a window continues a quiet run (the ledger's blip_max)

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
QUIET_LONGEST = "quiet_longest_s"  # the longest quiet run that ended here or still goes on
QUIET_SO_FAR = "quiet_so_far_s"  # of the last window that starts there
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
    QUIET_LONGEST,
    QUIET_SO_FAR,
)


@dataclass(frozen=True, slots=True)
class Before:
    """Of GPUs, ascending, when the last known window of each began, and how long its pause and its
    quiet run were by then (SO_FAR, QUIET_SO_FAR).
    """

    gpu_ids: Ints
    start_ms: Ints
    so_far_s: Floats
    quiet_s: Floats

    def at(self, windows: Windows, lengths_s: Floats) -> Floats:
        """Of its GPUs' lengths that of each of those windows; NaN for others."""
        row = rows_among(self.gpu_ids, windows.gpu_id)
        is_it = np.append(self.start_ms, -1)[row] == windows.start_ms
        return np.where(is_it, np.append(lengths_s, np.nan)[row], np.nan)


NOTHING = Before(*np.zeros((2, 0), dtype=np.int64), *np.zeros((2, 0)))


def together(several: Sequence[Before]) -> Before:
    """What is known of several nodes' GPUs."""
    whole = [np.concatenate(values) for values in zip(*map(astuple, several), strict=True)]
    order = np.argsort(whole[0])
    return Before(*(values[order] for values in whole))


def of(windows: Windows, at: Places, before: Before = NOTHING) -> dict[str, Floats]:
    """FIGURES as GPUs x cells; NaN where no window with a place tells of utilisation.

    Onsets are NaN where none is.
    """
    low_s, is_read = _low_seconds(windows)
    is_long = low_s >= LONG_S
    known_s = before.at(windows, before.so_far_s)
    continues = _continues(windows, low_s, is_long, known_s)
    so_far_s = _so_far(low_s, continues, known_s)
    onset = is_long & ~continues
    paused_s = np.where(is_long, low_s, 0.0)
    return {
        LOW_S: at.total(np.where(is_read, paused_s, np.nan)),
        ONSETS: at.total(np.where(is_read, onset, np.nan)),
        LONGEST: np.nan_to_num(at.largest(np.where(is_long, so_far_s, np.nan))),
        **_moments(windows, at, onset, so_far_s),
        **_quiet(windows, at, before.at(windows, before.quiet_s)),
    }


@dataclass(frozen=True, slots=True)
class LongPause:
    """A long pause [start_ms, end_ms), and the start of the window in which it began.

    Where in a window that is paused in part it lay is not known: in the first of several at its
    end, in the last at its beginning, in a single one in the middle.
    """

    start_ms: int
    end_ms: int
    window_ms: int


def long_pauses(windows: Windows) -> list[LongPause]:
    """The pauses of one GPU, whose windows come in order of time: those that ONSETS counts, and
    first one that goes on from before.
    """
    low_s, _ = _low_seconds(windows)
    is_long = (low_s >= LONG_S) & (windows.observed_ms > 0)
    continues = _continues(windows, low_s, is_long, np.full(len(low_s), np.nan))
    low_ms = np.rint(low_s * 1000).astype(np.int64)
    return [
        _long_pause(windows, low_ms, first, first + _goes_on(continues, first))
        for first in np.flatnonzero(is_long & ~continues).tolist()
    ]


def _long_pause(windows: Windows, low_ms: Ints, first: int, last: int) -> LongPause:
    """From the first of these windows to the last."""
    window_ms = int(windows.start_ms[first])
    after_ms = int(windows.end_ms[first] - low_ms[first])
    if first == last:
        begins_ms = (window_ms + after_ms) // 2
        return LongPause(begins_ms, begins_ms + int(low_ms[first]), window_ms)
    return LongPause(after_ms, int(windows.start_ms[last] + low_ms[last]), window_ms)


def _goes_on(continues: Mask, at: int) -> int:
    """Into how many windows after that one its pause goes on."""
    after = continues[at + 1 :]
    return int(np.argmin(after)) if not after.all() else len(after)


def _quiet(windows: Windows, at: Places, known_s: Floats) -> dict[str, Floats]:
    """NaN where no window of a place tells of utilisation."""
    activity = np.fmax(Columns(windows)["util_mean"], busiest_engine(Columns(windows)))
    is_quiet = activity <= QUIET
    length_s = np.where(is_quiet, (windows.end_ms - windows.start_ms) / 1000, 0.0)
    continues = np.zeros(len(length_s), dtype=bool)
    continues[1:] = is_quiet[1:] & is_quiet[:-1] & _follows(windows)
    so_far_s = _so_far(length_s, continues, known_s)
    return {
        QUIET_LONGEST: at.largest(np.where(np.isnan(activity), np.nan, so_far_s)),
        QUIET_SO_FAR: at.shaped(_lasts(so_far_s, at.began, at.size)),
    }


def _moments(windows: Windows, at: Places, onset: Mask, so_far_s: Floats) -> dict[str, Floats]:
    """When pauses began, and what the last window of each place says."""
    seconds = windows.start_ms / 1000
    flat = {
        LAST_START: _lasts(seconds, at.began, at.size),
        SO_FAR: _lasts(so_far_s, at.began, at.size),
        **_intervals(at.of_window[onset], seconds[onset], at.size),
    }
    return {name: at.shaped(values) for name, values in flat.items()}


def _low_seconds(windows: Windows) -> tuple[Floats, Mask]:
    """Seconds of each window's longest pause (of spinning: all of it), and whether utilisation was
    read at all.
    """
    columns = Columns(windows)
    length_s = (windows.end_ms - windows.start_ms) / 1000
    mean = columns["util_mean"]
    longest = columns["util_longest_low_s"]
    # without the driver's buffer a window is a pause or it is not
    low_s = np.where(np.isnan(longest), np.where(mean < LOW, length_s, 0.0), longest)
    low_s = np.fmax(low_s, columns["spin_fraction"] * length_s)
    return low_s, ~np.isnan(longest) | ~np.isnan(mean)


def _continues(windows: Windows, low_s: Floats, is_long: Mask, known_s: Floats) -> Mask:
    """Whether a window's pause goes on from the window before it: one of the two is all pause, or
    neither dips beside it.

    Where `known_s`, its pause up to and with it, is known, that tells.
    """
    is_whole = low_s >= WHOLE * ((windows.end_ms - windows.start_ms) / 1000)
    dips = np.nan_to_num(Columns(windows)["util_dips"])
    is_joined = is_whole[1:] | is_whole[:-1] | (dips[1:] + dips[:-1] <= 1)
    continues = np.zeros(len(low_s), dtype=bool)
    continues[1:] = is_long[1:] & is_long[:-1] & _follows(windows) & is_joined
    is_known = ~np.isnan(known_s)
    # what went on is longer by a long pause at least
    continues = np.where(is_known, known_s > low_s + LONG_S / 2, continues)
    return _ended_once(continues, is_whole, is_known)


def _follows(windows: Windows) -> Mask:
    """Of each window but the first whether it is of the same GPU as the one before it, and begins
    where that ended.
    """
    gap_ms = np.abs(windows.start_ms[1:] - windows.end_ms[:-1])
    follows: Mask = (np.diff(windows.gpu_id) == 0) & (gap_ms <= SAME_MS)
    return follows


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
    pause_s = np.where(is_known, known_s, low_s)
    total = np.cumsum(pause_s)
    before = np.where(continues & ~is_known, -np.inf, total - pause_s)
    return total - np.maximum.accumulate(before)


def _lasts(values: Floats, place: Ints, size: int) -> Floats:
    """The last value of each place; NaN where none is."""
    last = np.full(size, np.nan)
    last[place[place >= 0]] = values[place >= 0]
    return last


def _intervals(place: Ints, seconds: Floats, size: int) -> dict[str, Floats]:
    """Of onsets, sorted by GPU and time: the first and last of each place, and the times
    between.
    """
    seconds = seconds[place >= 0]
    place = place[place >= 0]
    between = np.where(place[1:] == place[:-1], np.diff(seconds), 0.0)
    sums, squares = (
        np.bincount(place[1:], weights=values, minlength=size).astype(np.float64)
        for values in (between, between * between)
    )
    return {
        FIRST_ONSET: _lasts(seconds[::-1], place[::-1], size),
        LAST_ONSET: _lasts(seconds, place, size),
        INTERVALS: sums,
        INTERVALS_SQUARED: squares,
    }
