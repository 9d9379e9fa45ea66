"""Hours whose dollars are far from what is usual at that weekday and hour. Pure; docs/budgets.md
has the rule.

Arrays are of several series at once, [series, day, hour on the wall]; NaN is what is not known.
What is usual on a day is read from the weeks before it alone: what was found once stays found.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fleetwatch.budgets.arrays import Floats, quantile
from fleetwatch.budgets.forecast import SHAPE_WEEKS, WEEK

BEGINS = 5.0  # spreads off: 1 in 1.7 million hours of a normal distribution
GOES_ON = 2.5  # and what adjoins such an hour belongs to it down to here
BRIDGED_H = 3  # hours between that are usual, or not known, do not end it
# that know what is usual at an hour: of two a median is a mean, and one wild day moves it
FEWEST_WEEKS = 3
# What makes a spread (of a normal distribution: one standard deviation) of the median distance from
# the median, and of the 85th percentile of the distances: of a team that holds GPUs in bursts most
# hours are exactly usual, that one knows the bursts.
# One wild day in eight is still not usual.
MEDIAN_TO_SPREAD = 1.4826
BURSTS = 0.85
BURSTS_TO_SPREAD = 0.6947
LEAST_SPREAD = 0.10  # of the usual dollars of an hour
DAY_H = 24


@dataclass(frozen=True, slots=True)
class UnusualHours:
    """Hours [first, last] of a series, counted from its first day's midnight; dollars of them and
    what is usual.
    """

    series: int
    first: int
    last: int
    usd: float
    usual_usd: float
    spreads: float  # of the farthest hour, signed


def unusual_hours(usd: Floats, *, since_day: int, floor_usd_per_day: float) -> list[UnusualHours]:
    """What is unusual from that day on by spreads and by money: at least the floor for each day it
    lasts, and for one.
    """
    if since_day >= usd.shape[1]:
        return []
    usual, spread = (each.reshape(len(usd), -1) for each in _usual(usd, since_day))
    recent = usd[:, since_day:].reshape(len(usd), -1)
    with np.errstate(invalid="ignore", divide="ignore"):
        off = (recent - usual) / spread
    wild = np.nanmax(np.abs(np.where(np.isfinite(off), off, 0.0)), axis=1) >= BEGINS
    since = since_day * DAY_H
    return [
        hours
        for series in np.flatnonzero(wild)
        for hours in _far(int(series), since, recent[series], usual[series], off[series])
        if _is_dear(hours, floor_usd_per_day)
    ]


def _is_dear(hours: UnusualHours, floor_usd_per_day: float) -> bool:
    """Whether their dollars are off on the side of their spreads, by the floor."""
    more_usd = math.copysign(1.0, hours.spreads) * (hours.usd - hours.usual_usd)
    return more_usd >= floor_usd_per_day * max(1.0, (hours.last + 1 - hours.first) / DAY_H)


def _far(
    series: int, since: int, recent: Floats, usual: Floats, off: Floats
) -> Iterator[UnusualHours]:
    """The stretches of one series that are far off; the arrays begin at the hour `since`."""
    for sign in (1.0, -1.0):
        for first, last in _stretches(np.nan_to_num(sign * off)):
            hours = slice(first, last + 1)
            is_known = np.isfinite(off[hours])
            spent, expected = (float(usd[hours][is_known].sum()) for usd in (recent, usual))
            peak = sign * float(np.nanmax(sign * off[hours]))
            yield UnusualHours(series, since + first, since + last, spent, expected, peak)


def _usual(usd: Floats, since_day: int) -> tuple[Floats, Floats]:
    """Median and spread of each hour from since_day on, by the same hour of up to 8 weeks before;
    NaN where too few know.

    The spread is one for all hours of a day, of the week that ends with it: of eight values alone
    it would be a matter of luck.
    """
    first = max(0, since_day - WEEK + 1)
    before = _weeks_before(usd, first)
    enough = np.isfinite(before).sum(axis=0) >= FEWEST_WEEKS
    median = np.where(enough, quantile(before, 0.5, axis=0), np.nan)
    distance = np.abs(before - median[None])  # [week, series, day, hour]
    days = range(since_day - first, usd.shape[1] - first)
    spread = np.stack([_spread(distance, day) for day in days], axis=1)
    median = median[:, since_day - first :]
    # where nothing was ever spent anything is infinitely far: the money floor alone decides
    return median, np.maximum(
        np.nan_to_num(spread)[:, :, None] + LEAST_SPREAD * np.abs(median), 1e-9
    )


def _weeks_before(usd: Floats, first: int) -> Floats:
    """For each hour from that day on, those of the weeks before: [week, series, day, hour]."""
    longest = SHAPE_WEEKS * WEEK
    padded = np.pad(usd, ((0, 0), (longest, 0), (0, 0)), constant_values=np.nan)
    ends = usd.shape[1]
    return np.stack(
        [padded[:, first + back : ends + back] for back in range(longest - WEEK, -1, -WEEK)]
    )


def _spread(distance: Floats, day: int) -> Floats:
    """One spread for each series, of the week of [week, series, day, hour] that ends with
    the day.
    """
    week = distance[:, :, max(0, day - WEEK + 1) : day + 1]
    flat = np.moveaxis(week, 1, 0).reshape(week.shape[1], -1)
    return np.fmax(
        MEDIAN_TO_SPREAD * quantile(flat, 0.5, axis=1),
        BURSTS_TO_SPREAD * quantile(flat, BURSTS, axis=1),
    )


def _stretches(off: Floats) -> Iterator[tuple[int, int]]:
    """(first, last) of stretches in which every hour but BRIDGED_H in a row goes on, and one
    begins.
    """
    places = np.flatnonzero(off >= GOES_ON)
    if not len(places):
        return
    breaks = np.flatnonzero(np.diff(places) > BRIDGED_H + 1)
    for group in np.split(places, breaks + 1):
        if off[group].max() >= BEGINS:
            yield int(group[0]), int(group[-1])
