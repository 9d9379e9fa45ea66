"""Jobs that run again and again, three times a day, and what their owners changed in them: data,
and when.

A series goes through rounds of ten days under one name: it wastes, its owner mends it and it runs
better and shorter, later the waste is back. Rounds of two series lie half a round apart, so that at
any time one is mended.
"""

import random
from dataclasses import dataclass
from typing import List

from agent.sources.simulated.hardware import Range

DAY_MS = 86_400_000
EVERY_MS = DAY_MS // 3
LATEST_START_S = 1200
ROUND_DAYS = 10
MENDED_DAY = 3
BACK_DAY = 8
GPUS_EACH = 2


@dataclass(frozen=True)
class Series:
    """What recurs; `wasteful` and `mended` are the archetypes of its runs, with the hours that a
    run takes.
    """

    name: str
    user: str
    account: str
    wasteful: str
    wasteful_hours: Range
    mended: str
    mended_hours: Range
    offset_days: int
    change: str  # what its owner says of it


@dataclass(frozen=True)
class Run:
    """One run over [start_ms, end_ms); `name` is the same throughout a round, `place` counts
    series.
    """

    series: Series
    place: int
    name: str
    archetype: str
    start_ms: int
    end_ms: int


@dataclass(frozen=True)
class Mending:
    """The moment from which on runs of that name are mended; those before waste."""

    series: Series
    name: str
    at_ms: int


SERIES = (
    Series(
        "tiles-refresh", "noor", "vision", "data_starved_io", (5.6, 6.4), "healthy_vision",
        (3.2, 3.6), 0,
        "tiles are copied to local NVMe before the first epoch",
    ),
    Series(
        "reward-refresh", "amara", "nlp", "checkpoint_stall", (6.6, 7.2), "healthy_llm", (5.0, 5.5),
        5,
        "checkpoints are saved in the background",
    ),
)  # fmt: skip
GPUS = GPUS_EACH * len(SERIES)  # of a node, its last ones


def runs_of_day(seed: int, day: int) -> List[Run]:
    """The runs of a UTC day since the epoch on the node of that seed, by series and start; none
    reaches over its end.
    """
    return [
        _run(seed, place, day, number)
        for place in range(len(SERIES))
        for number in range(DAY_MS // EVERY_MS)
    ]


def _run(seed: int, place: int, day: int, number: int) -> Run:
    series = SERIES[place]
    turn, at_day = divmod(day - series.offset_days, ROUND_DAYS)
    is_mended = MENDED_DAY <= at_day < BACK_DAY
    rng = random.Random("%d/%s/%d/%d" % (seed, series.name, day, number))
    start_ms = day * DAY_MS + number * EVERY_MS + rng.randrange(LATEST_START_S) * 1000
    hours = rng.uniform(*(series.mended_hours if is_mended else series.wasteful_hours))
    archetype = series.mended if is_mended else series.wasteful
    return Run(
        series, place, _name(series, turn), archetype, start_ms, start_ms + int(hours * 3600) * 1000
    )


def mendings_between(start_ms: int, end_ms: int) -> List[Mending]:
    """What owners mended in [start, end), by series and time."""
    return [
        Mending(series, _name(series, (day - series.offset_days) // ROUND_DAYS), day * DAY_MS)
        for series in SERIES
        for day in range(-(-start_ms // DAY_MS), -(-end_ms // DAY_MS))
        if (day - series.offset_days) % ROUND_DAYS == MENDED_DAY
    ]


def _name(series: Series, turn: int) -> str:
    return "%s-%d" % (series.name, turn)
