"""GPU time of each GPU model, hour by hour: what was there, held, at work, free. Pure.

GPU-milliseconds; an hour's milliseconds divided by its length are GPUs on its mean.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

from fleetwatch.lib.array_types import Floats, Ints
from fleetwatch.lib.intervals import HOUR_MS, from_ms

WEEKDAYS = 7
HOURS = 24


class HourParts(NamedTuple):
    """What is told of an hour's GPU time."""

    capacity_ms: Ints
    held_ms: Ints  # by jobs
    active_ms: Ints  # of it at work
    idle_ms: Ints  # of it idle
    free_ms: Ints
    whole_ms: Ints  # of what was free: on nodes of which every GPU was free all the hour
    unseen_ms: Ints  # nobody observed it: who held it is not known


@dataclass(frozen=True, slots=True)
class ModelHours:
    """Whole UTC hours of one GPU model ("" = of a model that is not known), each part with one
    number for each of them.
    """

    gpu_model: str
    starts_ms: Ints
    parts: HourParts

    @property
    def gpu_ms(self) -> HourParts:
        """The sums over all hours."""
        return HourParts(*(part.sum() for part in self.parts))

    @property
    def unused_ms(self) -> Ints:
        """Free, or held and idle."""
        return self.parts.free_ms + self.parts.idle_ms


class Spread(NamedTuple):
    """GPUs by hour: half of the hours had as many or fewer, 95 of 100, all of them."""

    p50: float
    p95: float
    most: float


def spread(gpu_ms: Ints, of_hours: Ints) -> Spread | None:
    """GPUs held on the mean of an hour, of the hours in which there were any (`of_hours`: their
    capacity); None without such hours. By nearest rank: each is a number that an hour had.
    """
    ordered = np.sort(gpu_ms[of_hours > 0])
    if not len(ordered):
        return None

    def at(percent: int) -> float:
        return float(ordered[-(-percent * len(ordered) // 100) - 1]) / HOUR_MS

    return Spread(at(50), at(95), at(100))


def total(models: Sequence[ModelHours]) -> ModelHours | None:
    """All models together; None without one."""
    if not models:
        return None
    columns = zip(*(each.parts for each in models), strict=True)
    parts = HourParts(*(np.sum(column, axis=0) for column in columns))
    return ModelHours("", models[0].starts_ms, parts)


def by_clock(gpu_ms: Ints, hours: ModelHours, zone: ZoneInfo) -> Floats:
    """Weekdays (Monday first) x hours of the zone's clock: GPUs on the mean; NaN where the clock
    showed that hour never, or nothing is known of it.

    An hour that the clock shows twice, as when summer ends, is two hours of the mean, and one that
    it skips is none. In a zone half an hour off, an hour counts where it begins.
    """
    places = np.array([_place(from_ms(at).astimezone(zone)) for at in hours.starts_ms.tolist()])
    is_there = hours.parts.capacity_ms > 0
    size = WEEKDAYS * HOURS
    sums = np.bincount(places[is_there], weights=gpu_ms[is_there], minlength=size)
    counts = np.bincount(places[is_there], minlength=size)
    means: Floats = np.divide(sums, counts * HOUR_MS, out=np.full(size, np.nan), where=counts > 0)
    return np.reshape(means, (WEEKDAYS, HOURS))


def _place(local: datetime) -> int:
    return local.weekday() * HOURS + local.hour


def summed(
    days: Iterable[tuple[Ints, HourParts, Ints]], models: Sequence[str], starts_ms: Ints
) -> list[ModelHours]:
    """Each model's hours, of days of machines: the hours' starts, parts of machines x hours, and of
    each machine the place of its model; models without time are left out. Hours outside of
    `starts_ms` (consecutive) do not count, and the last ones without any time are left out.
    """
    sums = np.zeros((len(HourParts._fields), len(models), len(starts_ms)), dtype=np.int64)
    for day in days:
        _add(sums, *day, (day[0] - starts_ms[0]) // HOUR_MS)
    # the newest hours may not be posted yet
    posted = slice(int(np.max(np.flatnonzero(sums[0].any(axis=0)), initial=-1)) + 1)
    return [
        ModelHours(name, starts_ms[posted], HourParts(*sums[:, place, posted]))
        for place, name in enumerate(models)
        if sums[0, place].any()
    ]


def _add(sums: Ints, _: Ints, parts: HourParts, model: Ints, hour: Ints) -> None:
    """Adds a day's machines to parts x models x hours; `hour` says which of these its hours are."""
    inside = (hour >= 0) & (hour < sums.shape[2])
    for place, part in enumerate(parts):
        np.add.at(sums[place], np.ix_(model, hour[inside]), part[:, inside])


def with_whole(machines: HourParts) -> HourParts:
    """Parts of machines x hours: what is free of a machine that is wholly free is whole."""
    is_whole = (machines.free_ms == machines.capacity_ms) & (machines.capacity_ms > 0)
    return machines._replace(whole_ms=np.where(is_whole, machines.free_ms, 0))
