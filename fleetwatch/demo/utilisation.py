"""The utilisation columns of windows from the driver's samples, in numpy. Pure.

The definitions are agent.window's, which works on one window at a time; a test holds the two
together.
"""

import numpy as np
from numpy.typing import NDArray

from agent.sources.simulated.source import SAMPLES_PER_S
from agent.window import DIP_HIGH, DIP_LOW, HIGH, LOW, PERCENTILES

Floats = NDArray[np.float64]
Percents = NDArray[np.uint8]


def utilisation(samples: Percents, before: Floats) -> dict[str, Floats]:
    """Columns of windows (rows of samples in whole percent); `before` is the utilisation just
    before each.
    """
    ordered = np.sort(samples, axis=1, kind="stable")  # of bytes a radix sort: ten times as fast
    count = samples.shape[1]
    columns = {
        "util_mean": samples.sum(axis=1, dtype=np.int32) / (100 * count),
        "util_min": ordered[:, 0] / 100,
        "util_max": ordered[:, -1] / 100,
        **{
            name: ordered[:, max(0, int(np.ceil(share * count - 1e-9)) - 1)] / 100
            for name, share in PERCENTILES
        },
        "util_zero_fraction": np.count_nonzero(samples == 0, axis=1) / count,
        "util_low_fraction": np.count_nonzero(samples < round(LOW * 100), axis=1) / count,
        "util_high_fraction": np.count_nonzero(samples >= round(HIGH * 100), axis=1) / count,
    }
    return (
        columns
        | _dips(samples, before)
        | {"util_longest_low_s": _longest_low(samples) / SAMPLES_PER_S}
    )


def _dips(samples: Percents, before: Floats) -> dict[str, Floats]:
    """Falls from DIP_HIGH to DIP_LOW, the median of the seconds between them and how much those
    vary.
    """
    rows = len(samples)
    columns = {
        "util_dips": np.zeros(rows),
        "util_cycle_s": np.full(rows, np.nan),
        "util_cycle_cv": np.full(rows, np.nan),
    }
    may = np.flatnonzero(
        (samples.min(axis=1) <= DIP_LOW * 100)
        & ((samples.max(axis=1) >= DIP_HIGH * 100) | (before >= DIP_HIGH))
    )
    if len(may) == 0:
        return columns
    row, place = np.nonzero(_falls(samples[may], before[may]))
    columns["util_dips"][may] = np.bincount(row, minlength=len(may))
    same = row[1:] == row[:-1]
    _cycles(columns, may[row[1:][same]], (place[1:] - place[:-1])[same] / SAMPLES_PER_S)
    return columns


def _falls(samples: Percents, before: Floats) -> NDArray[np.bool_]:
    """True at the samples at which a window's utilisation falls; what lies between high and low
    changes nothing.
    """
    side = (samples >= round(DIP_HIGH * 100)).astype(np.int8) - (
        samples <= round(DIP_LOW * 100)
    ).astype(np.int8)
    start = np.where(before >= DIP_HIGH, 1, -1).astype(np.int8)
    side = np.concatenate([start[:, None], side], axis=1)
    places = np.where(side != 0, np.arange(side.shape[1], dtype=np.int32), 0)
    latest = np.take_along_axis(side, np.maximum.accumulate(places, axis=1), axis=1)
    falls: NDArray[np.bool_] = (latest[:, 1:] == -1) & (latest[:, :-1] == 1)
    return falls


def _cycles(columns: dict[str, Floats], rows: NDArray[np.int64], gaps_s: Floats) -> None:
    """Median and coefficient of variation of each row's gaps; rows come in order."""
    if len(rows) == 0:
        return
    order = np.lexsort((gaps_s, rows))
    sorted_s = gaps_s[order]
    some, first, count = np.unique(rows, return_index=True, return_counts=True)
    columns["util_cycle_s"][some] = (
        sorted_s[first + (count - 1) // 2] + sorted_s[first + count // 2]
    ) / 2
    mean = np.add.reduceat(gaps_s, first) / count
    spread = np.sqrt(np.maximum(np.add.reduceat(gaps_s**2, first) / count - mean**2, 0.0))
    columns["util_cycle_cv"][some] = np.where(count >= 2, spread / mean, np.nan)


def _longest_low(samples: Percents) -> Floats:
    """The longest run of samples below LOW in each row."""
    is_low = samples < round(LOW * 100)
    longest = np.where(is_low.all(axis=1), samples.shape[1], 0).astype(np.float64)
    some = np.flatnonzero(is_low.any(axis=1) & ~is_low.all(axis=1))
    if len(some):
        places = np.arange(1, samples.shape[1] + 1, dtype=np.int32)
        last_other = np.maximum.accumulate(np.where(is_low[some], 0, places), axis=1)
        longest[some] = (places - last_other).max(axis=1)
    return longest
