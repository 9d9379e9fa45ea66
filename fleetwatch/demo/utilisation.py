"""The utilisation columns of windows from the driver's samples, in numpy. Pure.

The definitions are agent.window's, which works on one window at a time; a test holds the two
together.
"""

import numpy as np
from numpy.typing import NDArray

from agent.sources.simulated.source import SAMPLES_PER_S
from agent.window import DIP_HIGH, DIP_LOW, HIGH, LOW, PERCENTILES

LOW_PERCENT = round(LOW * 100)
HIGH_PERCENT = round(HIGH * 100)
DIP_LOW_PERCENT = round(DIP_LOW * 100)
DIP_HIGH_PERCENT = round(DIP_HIGH * 100)

Floats = NDArray[np.float64]
Percents = NDArray[np.uint8]


def utilisation(samples: Percents, before: Floats) -> dict[str, Floats]:
    """Columns of windows (rows of samples in whole percent); `before` is the utilisation just
    before each.
    """
    ordered = np.sort(samples, axis=1, kind="stable")  # of bytes a radix sort: ten times as fast
    count = samples.shape[1]
    parts = {
        "util_zero_fraction": samples == 0,
        "util_low_fraction": samples < LOW_PERCENT,
        "util_high_fraction": samples >= HIGH_PERCENT,
    }
    return {
        "util_mean": samples.sum(axis=1, dtype=np.int32) / (100 * count),
        "util_min": ordered[:, 0] / 100,
        "util_max": ordered[:, -1] / 100,
        **{name: ordered[:, _place(share, count)] / 100 for name, share in PERCENTILES},
        **{name: np.count_nonzero(part, axis=1) / count for name, part in parts.items()},
        **_dips(samples, before),
        "util_longest_low_s": _longest_low(samples) / SAMPLES_PER_S,
    }


def _place(share: float, count: int) -> int:
    """Of the value among so many in order that this share of them do not exceed."""
    return max(0, int(np.ceil(share * count - 1e-9)) - 1)


def _dips(samples: Percents, before: Floats) -> dict[str, Floats]:
    """Falls from DIP_HIGH to DIP_LOW, the median of the seconds between them and how much those
    vary.
    """
    is_high = (samples.max(axis=1) >= DIP_HIGH_PERCENT) | (before >= DIP_HIGH)
    may = np.flatnonzero(is_high & (samples.min(axis=1) <= DIP_LOW_PERCENT))
    row, place = np.nonzero(_falls(samples[may], before[may]))
    row = may[row]
    same = np.diff(row) == 0
    gaps_s = np.diff(place)[same] / SAMPLES_PER_S
    cycle_s, cycle_cv = _cycles(row[1:][same], gaps_s, windows=len(samples))
    return {
        "util_dips": np.bincount(row, minlength=len(samples)).astype(np.float64),
        "util_cycle_s": cycle_s,
        "util_cycle_cv": cycle_cv,
    }


def _falls(samples: Percents, before: Floats) -> NDArray[np.bool_]:
    """True at the samples at which a window's utilisation falls; what lies between high and low
    changes nothing.
    """
    side = (samples >= DIP_HIGH_PERCENT).astype(np.int8) - (samples <= DIP_LOW_PERCENT).astype(
        np.int8
    )
    start = np.where(before >= DIP_HIGH, 1, -1).astype(np.int8)
    side = np.concatenate([start[:, None], side], axis=1)
    places = np.where(side != 0, np.arange(side.shape[1], dtype=np.int32), 0)
    latest = np.take_along_axis(side, np.maximum.accumulate(places, axis=1), axis=1)
    falls: NDArray[np.bool_] = (latest[:, 1:] == -1) & (latest[:, :-1] == 1)
    return falls


def _cycles(rows: NDArray[np.int64], gaps_s: Floats, *, windows: int) -> Floats:
    """Median and coefficient of variation of each window's gaps, whose rows come in order; NaN
    where there are too few.
    """
    cycles = np.full((2, windows), np.nan)
    some, first, count = np.unique(rows, return_index=True, return_counts=True)
    sorted_s = gaps_s[np.lexsort((gaps_s, rows))]
    mean = np.add.reduceat(gaps_s, first) / count
    variance = np.maximum(np.add.reduceat(gaps_s**2, first) / count - mean**2, 0.0)
    variance[count < 2] = np.nan
    cycles[0, some] = (sorted_s[first + (count - 1) // 2] + sorted_s[first + count // 2]) / 2
    cycles[1, some] = np.sqrt(variance) / mean
    return cycles


def _longest_low(samples: Percents) -> Floats:
    """The longest run of samples below LOW in each row."""
    places = np.arange(1, samples.shape[1] + 1, dtype=np.int32)
    last_other = np.maximum.accumulate(np.where(samples < LOW_PERCENT, 0, places), axis=1)
    longest: Floats = (places - last_other).max(axis=1).astype(np.float64)
    return longest
