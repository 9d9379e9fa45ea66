"""Readings of one GPU -> one window of the wire. Pure; nothing here knows a clock or a driver.

A reading counts until the next one, at most COUNTS_INTERVALS intervals: nothing bridges a gap. What
the driver averaged itself (its sample buffer, energy, `means`) counts back to the reading before.
"""

from dataclasses import dataclass
from operator import itemgetter
from typing import Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Union

from agent import wire
from agent.idle_watts import idle_power_w
from agent.readings import GPUInfo, Reading

COUNTS_INTERVALS = 1.5
LOW = 0.10
HIGH = 0.90
DIP_LOW = 0.30
DIP_HIGH = 0.70  # hysteresis: a dip is a fall from above DIP_HIGH to below DIP_LOW
SPIN_UTIL = 0.95
SPIN_POWER_RATIO = 0.20
SPIN_TENSOR = 0.005
SPIN_DRAM = 0.02
# Finer than any sensor; digits beyond it are noise that the hub would store (ten times the bytes),
# and without rounding ten readings of 0.9 average to 0.8999999999999999, below HIGH.
RATIO_DECIMALS = 5
AMOUNT_DECIMALS = 3
PERCENTILES = (("util_p5", 0.05), ("util_p10", 0.10), ("util_p50", 0.50), ("util_p90", 0.90))
# Column -> what of a reading it is the mean of, weighted by how long the reading counts.
_MEANS = {
    "power_w": "power_w",
    "memory_util_mean": "memory_util",
    "memory_used_bytes": "memory_used_bytes",
    "memory_reserved_bytes": "memory_reserved_bytes",
    "temperature_c": "temperature_c",
    "memory_temperature_c": "memory_temperature_c",
    "sm_clock_hz": "sm_clock_hz",
}
_VALUE = itemgetter(2)  # of a Level
# by column; None for what is whole
_DECIMALS = {
    name: RATIO_DECIMALS
    if name in wire.RATIOS
    else (None if name.endswith("_bytes") else AMOUNT_DECIMALS)
    for name in wire.WINDOW_COLUMNS
}
MAX_POWER_OVER_LIMIT = 1.3  # a counter that says more has been reset or is broken

Number = Union[int, float]
Columns = Dict[str, Optional[Number]]  # of the wire; None: not read


@dataclass(frozen=True)
class GPUWindow:
    """One GPU over [start_ms, start_ms + the window's length); `columns` are the wire's, without
    what was not read.
    """

    uuid: str
    start_ms: int
    observed_ms: int
    columns: Dict[str, Number]


class Piece(NamedTuple):
    """A reading's part of the window: from start_ms to end_ms, and the reading that ended it if it
    came in time.
    """

    start_ms: float
    end_ms: float
    reading: Reading
    following: Optional[Reading]

    @property
    def length_ms(self) -> float:
        return self.end_ms - self.start_ms


# A utilisation that held: from start_ms, to end_ms, its value. Sixty a window: a bare tuple, as
# objects they would be a third of its cost.
Level = Tuple[float, float, float]
Pieces = Sequence[Piece]
Levels = Sequence[Level]
Readings = Sequence[Reading]


def close_window(
    readings: Readings, *, gpu: GPUInfo, start_ms: int, end_ms: int, interval_ms: float
) -> GPUWindow:
    """The window of these readings, in order of time, with one before and one after it where there
    are any.

    interval_ms is how far apart readings are meant to be. A window that nothing covers has
    observed_ms 0 and no columns.
    """
    pieces = _pieces(readings, start_ms, end_ms, interval_ms)
    columns: Columns = {}
    if pieces:
        columns = {
            **_utilisation(_levels(pieces), _value_before(readings, start_ms)),
            **_held(pieces, gpu),
            # one or two of a window have some
            **_means(
                [reading for reading in readings if reading.means],
                start_ms,
                end_ms,
                since_ms=readings[0].at_ms,
            ),
            "spin_fraction": _spin_fraction(pieces, gpu),
            "sm_clock_max_hz": gpu.sm_clock_max_hz,
        }
    observed_ms = min(end_ms - start_ms, round(sum(piece.length_ms for piece in pieces)))
    read = {
        name: round(value, _DECIMALS.get(name, AMOUNT_DECIMALS))
        for name, value in columns.items()
        if value is not None
    }
    return GPUWindow(gpu.uuid, start_ms, observed_ms, read)


def _pieces(readings: Readings, start_ms: int, end_ms: int, interval_ms: float) -> List[Piece]:
    pieces = []
    followers: List[Optional[Reading]] = [*readings[1:], None]
    for reading, following in zip(readings, followers):
        until = reading.at_ms + COUNTS_INTERVALS * interval_ms
        in_time = following if following is not None and following.at_ms <= until else None
        left = max(start_ms, reading.at_ms)
        right = min(end_ms, until if in_time is None else in_time.at_ms)
        if left < right:
            pieces.append(Piece(left, right, reading, in_time))
    return pieces


def _levels(pieces: Pieces) -> List[Level]:
    """The utilisation through the window: the driver's own samples where it had some, else the
    readings.
    """
    levels: List[Level] = []
    for piece in pieces:
        if piece.following is not None and piece.following.util_samples:
            _add_samples(levels, piece, piece.following)
        elif piece.reading.util is not None:
            levels.append((piece.start_ms, piece.end_ms, piece.reading.util))
    return levels


def _add_samples(levels: List[Level], piece: Piece, following: Reading) -> None:
    """The driver's samples as levels: each back to the one before, the last one up to the reading
    that fetched it.
    """
    first_ms, last_ms, before, _ = piece
    at_ms = following.at_ms
    newest_us = following.util_samples[-1][0]
    left: float = before.at_ms
    for stamp_us, value in following.util_samples:
        right = at_ms - (newest_us - stamp_us) / 1000
        # not max and min: this is done 50 times a second
        start = left if left > first_ms else first_ms
        end = right if right < last_ms else last_ms
        if start < end:
            levels.append((start, end, value))
        left = max(left, right)


def _value_before(readings: Readings, start_ms: int) -> Optional[float]:
    """The last utilisation before the window, so that a dip on its edge is counted once."""
    values = [_utilisation_of(reading) for reading in readings if reading.at_ms < start_ms]
    return values[-1] if values else None


def _utilisation(levels: Levels, before: Optional[float]) -> Columns:
    if not levels:
        return {}
    # one pass: with six samples a second this is the costliest part of a window
    values = [value for _, _, value in levels]
    total = weighted = zero = low = high = 0.0
    for start_ms, end_ms, value in levels:
        length = end_ms - start_ms
        total += length
        weighted += value * length
        if value >= HIGH:
            high += length
        elif value < LOW:
            low += length
            if value == 0:
                zero += length
    dips = _dips(levels, before)
    return {
        "util_mean": weighted / total,
        "util_min": min(values),
        "util_max": max(values),
        **_percentiles(levels, total),
        "util_zero_fraction": zero / total,
        "util_low_fraction": low / total,
        "util_high_fraction": high / total,
        "util_dips": len(dips),
        "util_longest_low_s": _longest_low_ms(levels) / 1000,
        **_cycle(dips),
    }


def _percentiles(levels: Levels, total: float) -> Columns:
    """The smallest value that holds for at least the given share of the time."""
    wanted = [(name, share * total - 1e-6) for name, share in PERCENTILES]
    columns: Columns = {}
    passed = 0.0
    for start_ms, end_ms, value in sorted(levels, key=_VALUE):
        passed += end_ms - start_ms
        while wanted and passed >= wanted[0][1]:
            columns[wanted.pop(0)[0]] = value
    return columns


def _dips(levels: Levels, before: Optional[float]) -> List[float]:
    """When utilisation fell from DIP_HIGH to DIP_LOW; what lies between changes nothing."""
    was_high = before is not None and before >= DIP_HIGH
    fallen = []
    for start_ms, _, value in levels:
        if value >= DIP_HIGH:
            was_high = True
        elif value <= DIP_LOW and was_high:
            was_high = False
            fallen.append(start_ms)
    return fallen


def _cycle(dips: Sequence[float]) -> Columns:
    """Median seconds from dip to dip (two dips at least) and how much they vary (three at
    least).
    """
    gaps = sorted((later - earlier) / 1000 for earlier, later in zip(dips, dips[1:]))
    if not gaps:
        return {}
    middle = len(gaps) // 2
    median = (gaps[middle] + gaps[-1 - middle]) / 2  # the same one twice where they are odd
    if len(gaps) < 2:
        return {"util_cycle_s": median}
    mean = sum(gaps) / len(gaps)
    variance = sum((gap - mean) ** 2 for gap in gaps) / len(gaps)
    return {"util_cycle_s": median, "util_cycle_cv": variance**0.5 / mean}


def _longest_low_ms(levels: Levels) -> float:
    longest = run = 0.0
    until: Optional[float] = None
    for start_ms, end_ms, value in levels:
        if value >= LOW:
            run = 0.0
        else:
            length = end_ms - start_ms
            run = run + length if until == start_ms else length
            longest = max(longest, run)
        until = end_ms
    return longest


def _held(pieces: Pieces, gpu: GPUInfo) -> Columns:
    """Columns of what each reading says of its own moment."""
    readings = [piece.reading for piece in pieces]
    lengths = [piece.length_ms for piece in pieces]
    watts = [reading.power_w for reading in readings if reading.power_w is not None]
    errors = [item.ecc_uncorrected for item in readings if item.ecc_uncorrected is not None]
    means = {
        column: _mean(zip([getattr(reading, name) for reading in readings], lengths))
        for column, name in _MEANS.items()
    }
    return {
        **means,
        "power_min_w": min(watts, default=None),
        "power_max_w": max(watts, default=None),
        "energy_j": _energy_j(pieces, gpu.power_limit_w),
        "ecc_uncorrected": max(errors, default=None),
    }


def _energy_j(pieces: Pieces, limit_w: Optional[float]) -> Optional[float]:
    """Joules of the observed time: the counter where it can be believed, else power x time; None if
    a piece has neither.

    A sum with a piece missing would read as a GPU that drew nothing meanwhile.
    """
    total = 0.0
    for piece in pieces:
        watts = _watts(piece, limit_w)
        if watts is None:
            return None
        total += watts * piece.length_ms / 1000
    return total


def _watts(piece: Piece, limit_w: Optional[float]) -> Optional[float]:
    """Average watts: by the energy counter, unless it was reset (it fell) or claims more than the
    board can draw; else of the power at both ends; the reading's own where no other came in time.
    """
    first = piece.reading
    second = piece.following
    if second is None:
        return first.power_w
    elapsed_ms = second.at_ms - first.at_ms
    if first.energy_j is not None and second.energy_j is not None:
        watts = (second.energy_j - first.energy_j) / (elapsed_ms / 1000)
        if watts >= 0 and (limit_w is None or watts <= MAX_POWER_OVER_LIMIT * limit_w):
            return watts
    if first.power_w is None or second.power_w is None:
        return first.power_w
    middle = (piece.start_ms + piece.end_ms) / 2 - first.at_ms
    return first.power_w + (second.power_w - first.power_w) * middle / elapsed_ms


def _spin_fraction(pieces: Pieces, gpu: GPUInfo) -> Optional[float]:
    """Share of the read time in which the GPU only waited in a kernel; None where model, limit or
    power is not known.
    """
    idle_w = idle_power_w(gpu.model)
    if idle_w is None or gpu.power_limit_w is None:
        return None
    ceiling_w = idle_w + SPIN_POWER_RATIO * (gpu.power_limit_w - idle_w)
    judged = [(_is_spinning(piece.reading, ceiling_w), piece.length_ms) for piece in pieces]
    return _mean(judged)


def _is_spinning(reading: Reading, ceiling_w: float) -> Optional[float]:
    """1.0 or 0.0; None where utilisation or power was not read."""
    util = _utilisation_of(reading)
    if util is None or reading.power_w is None:
        return None
    works = (
        reading.means.get("tensor_active", 0.0) >= SPIN_TENSOR
        or reading.means.get("dram_active", 0.0) >= SPIN_DRAM
    )
    return float(util >= SPIN_UTIL and reading.power_w <= ceiling_w and not works)


def _utilisation_of(reading: Reading) -> Optional[float]:
    """Over the time since the reading before where the driver sampled it (as its power is), else
    the snapshot.
    """
    if not reading.util_samples:
        return reading.util
    return sum(value for _, value in reading.util_samples) / len(reading.util_samples)


def _means(readings: Readings, start_ms: int, end_ms: int, *, since_ms: int) -> Columns:
    """Columns that the source averaged itself: each value holds back to the one before it."""
    columns: Columns = {}
    for name in sorted({name for reading in readings for name in reading.means}):
        left = since_ms
        parts = []
        own = []  # mostly this window's: one read just after its start is the one before's
        for reading in readings:
            if name in reading.means:
                value = reading.means[name]
                overlap = min(end_ms, reading.at_ms) - max(start_ms, left)
                if overlap > 0:
                    parts.append((value, overlap))
                if 2 * overlap > reading.at_ms - left:
                    own.append(value)
                left = reading.at_ms
        columns[name] = _mean(parts)
        if name == "sm_active" and len(own) > 1:
            columns["sm_active_max"] = max(own)
    return columns


def _mean(parts: Iterable[Tuple[Optional[float], float]]) -> Optional[float]:
    """Mean of the values that were read, weighted by milliseconds; None when none was."""
    total = weight = 0.0
    for value, length in parts:
        if value is not None:
            total += value * length
            weight += length
    return total / weight if weight else None
