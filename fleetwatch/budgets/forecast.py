"""What will be spent, from what was: a weekday×hour shape, a level, and how wrong that was before.
Pure.

docs/budgets.md has the formulas. All arrays are of several series at once: [series, day] or
[series, day, hour on the wall], the last day is the newest whole one, NaN is what is not known. A
"day to come" is counted from the first that is not in the history: its weekday is that of 7 days
before.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleetwatch.budgets.arrays import Floats, quantile

WEEK = 7
# of which the shape is made: long enough for a median, short enough to follow habits
SHAPE_WEEKS = 8
LEVEL_WEIGHTS = np.array([0.4, 0.3, 0.2, 0.1])  # of the last four weeks, the newest first
# a day farther from its usual amount counts as one this far: a burst is no habit
CLIP_SPREADS = 4.0
# so many of the last 7 days beyond so many spreads on one side: the level moved
SHIFT_SPREADS = 2.0
SHIFT_DAYS = 5
HABIT_DAYS = 3  # so many of them are no bursts any more, where the shape holds less than this
HABIT_SHAPE = 0.5  # of the dollars that were spent: bursts are then how this series spends
LEAST_SPREAD = 0.05  # of a usual day: less is not told apart
FEWEST_DAYS = 7  # below it there is no shape: the mean of what there is
# below it no weekday was seen twice, and what is shown would be a guess with a bias: nothing is
ENOUGH_DAYS = 14
LONGEST = 31  # days ahead
LOW = 0.1  # the range holds 8 of 10 outcomes
HIGH = 0.9
ENOUGH = 6.0  # stretches that do not overlap, to read a range of them
# how much wider a range of n such stretches is: 1 + 1.5 ÷ n (coverage measured: docs/budgets.md)
SMALL_SAMPLE = 1.5
WIDE = (-0.5, 1.0)  # half to twice, where nothing was tried before
NARROWEST = 0.01  # of a range, either way


@dataclass(frozen=True, slots=True)
class Rhythm:
    """What a week to come looks like: dollars per hour by day to come (modulo 7) and hour on the
    wall.
    """

    usd_per_hour: Floats  # [series, 7, 24]
    has_shifted: NDArray[np.bool_]  # [series]: the level is that of the last week alone


@dataclass(frozen=True, slots=True)
class Trial:
    """How wrong the same forecast was, made again at each earlier day, by days ahead (index 0 = one
    day).
    """

    tries: NDArray[np.int64]  # [series, LONGEST]
    median_error: Floats  # |actual ÷ forecast − 1|, NaN = never tried
    low: Floats  # the range, relative to the forecast
    high: Floats


def rhythm(usd: Floats, hours: Floats) -> Rhythm:
    """The rhythm after these days.

    `usd` [series, day, hour], `hours` [day, hour] how long each was.
    """
    return _rhythm(_rates(usd, hours))


def backtest(usd: Floats, hours: Floats) -> Trial:
    """The forecast at each earlier midnight with at least a week before it, against what came."""
    rates = _rates(usd, hours)
    # an hour that does not exist is no gap
    actual = np.where(hours > 0, usd, 0.0).sum(axis=2)
    first = first_days(actual)
    origins = range(FEWEST_DAYS, actual.shape[1])
    errors = np.full((len(origins), len(usd), LONGEST), np.nan)
    for row, origin in enumerate(origins):
        error = _error(rates, actual, hours, origin)
        errors[row, :, : error.shape[1]] = error
        errors[row, first > origin - FEWEST_DAYS] = np.nan
    return _judged(errors)


def _error(rates: Floats, actual: Floats, hours: Floats, origin: int) -> Floats:
    """How wrong the forecast of that day's midnight was, up to each day ahead."""
    before = slice(max(0, origin - SHAPE_WEEKS * WEEK), origin)
    ahead = slice(origin, origin + LONGEST)
    return _relative(actual[:, ahead], _expected(_rhythm(rates[:, before]), hours[ahead]))


def _rates(usd: Floats, hours: Floats) -> Floats:
    """Dollars per hour; NaN for an hour that a day does not have."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(hours > 0, usd / hours, np.nan)


def first_days(daily: Floats) -> NDArray[np.int64]:
    """The index of each series' first day with dollars; the number of days where there is none."""
    first: NDArray[np.int64] = (~_has_begun(daily)).sum(axis=1)
    return first


def _has_begun(daily: Floats) -> NDArray[np.bool_]:
    """Whether each series had dollars up to that day."""
    return np.logical_or.accumulate(np.nan_to_num(daily) > 0, axis=1)


def _rhythm(rates: Floats) -> Rhythm:
    """As rhythm(), of dollars per hour; days before a series' first one count for nothing."""
    # a team that was not there did not spend nothing
    rates = np.where(_has_begun(np.nansum(rates, axis=2))[:, :, None], rates, np.nan)
    flat = _flat(rates)
    if rates.shape[1] < FEWEST_DAYS:
        return flat
    by_week = _weeks(rates)
    average = _trimmed_mean(by_week)
    # hours of the week that nobody saw get the mean of all hours
    shape = np.where(np.isfinite(average), average, flat.usd_per_hour)
    shaped = _shaped(shape, _day_sums(by_week))
    short = np.isfinite(rates).any(axis=2).sum(axis=1) < FEWEST_DAYS
    usd_per_hour = np.where(short[:, None, None], flat.usd_per_hour, shaped.usd_per_hour)
    return Rhythm(usd_per_hour, shaped.has_shifted & ~short)


def _shaped(shape: Floats, sums: Floats) -> Rhythm:
    """The shape [series, 7, 24] at the level of the days' dollars [series, week, 7]."""
    usual = shape.sum(axis=2)  # [series, 7]
    spread = _spread(_off(sums, usual), usual)
    level, has_shifted = _level(sums, usual, spread)
    # what moved the level is in it
    habit = np.where(has_shifted, 0.0, _habit(sums, usual, spread))
    return Rhythm(_scaled(shape, level) + habit[:, None, None] / 24, has_shifted)


def _weeks(rates: Floats) -> Floats:
    """The last weeks as [series, week, 7, 24], the newest first; NaN before the first day."""
    weeks = min(SHAPE_WEEKS, -(-rates.shape[1] // WEEK))
    newest = rates[:, -weeks * WEEK :]
    missing = np.full((len(rates), weeks * WEEK - newest.shape[1], 24), np.nan)
    padded = np.concatenate([missing, newest], axis=1)
    return padded.reshape(len(rates), weeks, WEEK, 24)[:, ::-1]


def _scaled(shape: Floats, level: Floats) -> Floats:
    """The shape with the dollars of that level in a week."""
    total = shape.sum(axis=2).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        scale = np.where(total > 0, level / total, 0.0)
    scaled = shape * scale[:, None, None]
    # a team whose hours are mostly empty has an empty shape: its level is spread evenly
    scaled[total <= 0] = level[total <= 0, None, None] / (WEEK * 24)
    return scaled


def _flat(rates: Floats) -> Rhythm:
    """The mean of every hour there is, for every hour to come."""
    mean = _mean(rates, (1, 2))[:, None, None]
    return Rhythm(np.repeat(np.repeat(mean, WEEK, 1), 24, 2), np.zeros(len(rates), dtype=bool))


def _mean(values: Floats, axes: int | tuple[int, ...]) -> Floats:
    """The mean of what is known along the axes; 0 where nothing is."""
    mean: Floats = np.nansum(values, axis=axes) / np.maximum(np.isfinite(values).sum(axis=axes), 1)
    return mean


def _trimmed_mean(by_week: Floats) -> Floats:
    """Over weeks (axis 1), without the highest and lowest third; NaN where no week knows."""
    ordered = np.sort(by_week, axis=1)  # NaN last
    known_weeks = np.isfinite(ordered).sum(axis=1, keepdims=True)
    drop = known_weeks // 3
    place = np.arange(by_week.shape[1])[None, :, None, None]
    kept = np.where((place >= drop) & (place < known_weeks - drop), ordered, np.nan)
    return np.where(known_weeks[:, 0] > 0, _mean(kept, 1), np.nan)


def _day_sums(by_week: Floats) -> Floats:
    """Dollars of days [series, week, 7] by 24 hours on the wall; NaN where a quarter of the day or
    more is not known.

    What is missing of others is taken as the day's mean.
    """
    known_hours = np.isfinite(by_week).sum(axis=3)
    return np.where(known_hours > 18, _mean(by_week, 3) * 24, np.nan)


def _off(days: Floats, usual: Floats) -> Floats:
    """How far each day is from its usual amount; NaN where it is not known."""
    off: Floats = days - usual[:, None, :]
    return off


def _level(days: Floats, usual: Floats, spread: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Dollars of a week, and whether they are those of the last one alone because the level
    moved.
    """
    off = np.nan_to_num(_off(days, usual))
    has_shifted = _has_shifted(off[:, 0] / spread[:, None])
    limit = CLIP_SPREADS * spread[:, None, None]
    clipped = usual[:, None, :] + np.clip(off, -limit, limit)
    steady = _steady(clipped.sum(axis=2), np.isfinite(days).sum(axis=2) > 0)
    newest = (usual + off[:, 0]).sum(axis=1)
    return np.maximum(np.where(has_shifted, newest, steady), 0.0), has_shifted


def _has_shifted(spreads_off: Floats) -> NDArray[np.bool_]:
    """Whether most days [series, 7] are far off on one side."""
    above = (spreads_off > SHIFT_SPREADS).sum(axis=1)
    below = (spreads_off < -SHIFT_SPREADS).sum(axis=1)
    has_shifted: NDArray[np.bool_] = np.maximum(above, below) >= SHIFT_DAYS
    return has_shifted


def _steady(weekly: Floats, is_known: NDArray[np.bool_]) -> Floats:
    """The weighted mean of the newest weeks [series, week] that are known."""
    weeks = slice(len(LEVEL_WEIGHTS))
    weights = np.where(is_known[:, weeks], LEVEL_WEIGHTS[: weekly.shape[1]], 0.0)
    total = (weekly[:, weeks] * weights).sum(axis=1)
    steady: Floats = total / np.maximum(weights.sum(axis=1), 1e-12)
    return steady


def _habit(days: Floats, usual: Floats, spread: Floats) -> Floats:
    """Dollars of a day [series] that the level leaves out, where they are no burst but a habit.

    A mostly empty week has hardly a shape: what such a series spends is on days that are like no
    other. Their mean over all known days, each at most CLIP_SPREADS of their own from their median.
    """
    cut = (_off(days, usual) - CLIP_SPREADS * spread[:, None, None]).reshape(len(days), -1)
    cut = np.where(np.nan_to_num(cut) > 0, cut, np.nan)
    known_days = np.isfinite(days).sum(axis=(1, 2))
    in_shape = usual.sum(axis=1) * known_days / WEEK
    is_mostly_empty = in_shape < HABIT_SHAPE * np.nansum(days, axis=(1, 2))
    is_frequent = np.isfinite(cut).sum(axis=1) >= HABIT_DAYS
    # without any shape there is no usual day that one could be a burst of
    is_habit = is_mostly_empty & (is_frequent | (in_shape <= 0))
    return np.where(is_habit, _held(cut).sum(axis=1) / np.maximum(known_days, 1), 0.0)


def _held(cut: Floats) -> Floats:
    """Days [series, day], each at most CLIP_SPREADS of their own spreads from their median; 0 where
    not known.
    """
    middle = quantile(cut, 0.5, axis=1)[:, None]
    own = 1.4826 * quantile(np.abs(cut - middle), 0.5, axis=1)[:, None] + LEAST_SPREAD * middle
    return np.nan_to_num(np.minimum(cut, middle + CLIP_SPREADS * own))


def _spread(off: Floats, usual: Floats) -> Floats:
    """The usual distance of a day from its usual amount: 1.4826 × the median one, as for a normal
    distribution.
    """
    median = np.nan_to_num(quantile(np.abs(off.reshape(len(off), -1)), 0.5, axis=1))
    spread: Floats = np.maximum(1.4826 * median + LEAST_SPREAD * usual.mean(axis=1), 1e-9)
    return spread


def _expected(rhythm: Rhythm, hours: Floats) -> Floats:
    """Dollars of the days to come [series, day], whose hours last so long [day, hour]."""
    week = rhythm.usd_per_hour[:, np.arange(len(hours)) % WEEK]
    expected: Floats = np.einsum("sdh,dh->sd", week, hours)
    return expected


def _relative(daily: Floats, expected_daily: Floats) -> Floats:
    """Of the days up to each: what they made ÷ what was expected of them, − 1."""
    actual = np.cumsum(daily, axis=1)
    expected = np.cumsum(expected_daily, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(expected > 0, actual / expected - 1, np.nan)


def _judged(errors: Floats) -> Trial:
    """Medians and ranges by days ahead, of errors [try, series, days ahead]."""
    is_known = np.isfinite(errors)
    tries = is_known.sum(axis=0)
    stretches = tries / np.arange(1, LONGEST + 1)  # that do not overlap
    wider = 1 + SMALL_SAMPLE / np.maximum(stretches, 1)
    low = np.minimum(quantile(errors, LOW, axis=0) * wider, -NARROWEST)
    high = np.maximum(quantile(errors, HIGH, axis=0) * wider, NARROWEST)
    for row in range(errors.shape[1]):
        _hold(low[row], high[row], stretches[row])
    return Trial(tries, quantile(np.abs(errors), 0.5, axis=0), np.maximum(low, -1.0), high)


def _hold(low: Floats, high: Floats, stretches: Floats) -> None:
    """Farther ahead than was tried often enough a range is no narrower than the last one that was;
    with none it is WIDE.
    """
    enough = np.flatnonzero(stretches >= ENOUGH)
    if not len(enough):
        low[:], high[:] = WIDE
        return
    last = enough[-1]
    low[last:] = np.fmin(low[last:], low[last])
    high[last:] = np.fmax(high[last:], high[last])
