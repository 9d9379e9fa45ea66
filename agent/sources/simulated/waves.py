"""How much of a time a job spends at which level: closed forms of the time since its start.

Written with operators alone, so that the live agents (floats) and the demo's history
(numpy arrays) evaluate the very same formulas.
"""

import random
from bisect import bisect_right
from typing import Any, List, Sequence, Tuple

HOUR_S = 3600.0
_WHOLES = 1.5 * 2.0**52  # a float so large has no digits after the point


def smaller(left: Any, right: Any) -> Any:
    """The smaller of two numbers, element by element for arrays."""
    return 0.5 * (left + right - abs(left - right))


def larger(left: Any, right: Any) -> Any:
    """The larger of two numbers, element by element for arrays."""
    return 0.5 * (left + right + abs(left - right))


def rounds(number: Any) -> Any:
    """The number rounded down; at a whole number itself it may be one less, which the continuous
    waves here do not notice.

    The floor division of arrays takes ten times as long.
    """
    return (number - 0.5 + _WHOLES) - _WHOLES


def high_seconds(at_s: Any, *, period_s: float, duty: float) -> Any:
    """Seconds of [0, at_s) at the high level of a square wave that starts high."""
    high_s = period_s * duty
    cycles = rounds(at_s / period_s)
    return cycles * high_s + smaller(at_s - cycles * period_s, high_s)


def warped(at_s: Any, *, period_s: float, jitter: float) -> Any:
    """The time as a job's own clock has it, which runs now faster and now slower: periods differ by
    about `jitter`.

    Two slow triangle waves, so that it is a closed form; strictly growing for jitters below 0.7.
    """
    # two rates of 1 +- gain, one after the other: a coefficient of variation of about jitter
    gain = jitter * 0.7
    return at_s + gain * (_triangle(at_s, 5.3 * period_s) + _triangle(at_s, 13.7 * period_s))


def _triangle(at_s: Any, period_s: float) -> Any:
    """A wave that falls and rises by one for each second."""
    turns = at_s / period_s
    return period_s * abs(turns - rounds(turns) - 0.5)


def between(at: float, places: Sequence[float], values: Sequence[float]) -> float:
    """The value at that place of a line through rising places; of arrays numpy.interp says it."""
    right = min(max(bisect_right(places, at), 1), len(places) - 1)
    left = right - 1
    part = (at - places[left]) / (places[right] - places[left])
    return values[left] + min(max(part, 0.0), 1.0) * (values[right] - values[left])


def running_seconds(at_s: Any, *, warmup_s: float, hangs_after_s: float) -> Any:
    """Seconds of [0, at_s) that a job runs: not before its warm-up is over, not once it hangs."""
    return smaller(larger(at_s - warmup_s, 0.0), hangs_after_s)


def noise(number: Any, salt: int) -> Any:
    """Between -1 and 1, scattered evenly over whole numbers: the same for the same number
    and salt.
    """
    start = number * 0.6180339887498949 + salt * 0.7548776662466927
    start = start - rounds(start)
    scattered = start * (start + 91.7) * 1013.3
    return 2.0 * (scattered - rounds(scattered)) - 1.0


def demand(hour: int) -> float:
    """What part of its peak the demand for a service reaches at that hour since the epoch, 0.2 to 1
    (UTC day, quieter at weekends).
    """
    by_hour = (
        0.3,
        0.25,
        0.2,
        0.2,
        0.2,
        0.25,
        0.4,
        0.6,
        0.8,
        0.95,
        1.0,
        1.0,
        0.95,
        1.0,
        1.0,
        0.95,
        0.9,
        0.8,
        0.7,
        0.65,
        0.6,
        0.5,
        0.45,
        0.35,
    )
    is_weekend = (hour // 24 + 4) % 7 in {0, 6}  # 1970-01-01 was a Thursday
    return by_hour[hour % 24] * (0.6 if is_weekend else 1.0)


def bursts_of_hour(
    seed: str, hour: int, *, burst_s: Tuple[float, float], gap_s: float, is_diurnal: bool
) -> List[Tuple[float, float]]:
    """Bursts (start, end) in seconds since the epoch within one hour since the epoch; each hour is
    drawn on its own.
    """
    rng = random.Random("%s/%d" % (seed, hour))
    mean_gap_s = gap_s / demand(hour) if is_diurnal else gap_s
    start_of_hour = hour * HOUR_S
    bursts = []
    at_s = rng.expovariate(1.0 / mean_gap_s)
    while at_s < HOUR_S:
        end_s = min(at_s + rng.uniform(*burst_s), HOUR_S)
        bursts.append((start_of_hour + at_s, start_of_hour + end_s))
        at_s = end_s + rng.expovariate(1.0 / mean_gap_s)
    return bursts
