"""What a fix brought: runs of one recurring job before it and after it, compared. Pure.

Nothing here knows whether two runs did the same work. So a share of useful time that rose is told as "utilisation improved";
hours count as saved only where runs became shorter, and never more of them than the waste that went away.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MIN_RUNS = 3  # on each side; with fewer an interval says nothing
MOST_RUNS = 50  # on each side, those nearest to the fix
DRAWS, SEED = 2000, 5  # of the bootstrap: the same runs always give the same interval
BOUNDS = (2.5, 97.5)  # percentiles: a 95 % interval
BACK = 0.5  # of the cause's former share of time, from which it is back
RECENT = 3  # runs that tell whether it is back
NOTICED_SHARE = 0.2  # of a run's time that a cause must have taken before its end is noticed


class Outcome(StrEnum):
    """What the runs say of a fix."""

    WAITING = "waiting"  # for more runs
    IMPROVED = "improved"  # the whole interval of the useful share is above 0
    UNPROVEN = "unproven"
    REGRESSED = "regressed"  # it was better for a while, and the cause is back


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a recurring job (of a service one UTC day), in GPU-milliseconds.

    `held_ms` is what telemetry told of; `wasted_ms` of it was idle, stalled or underused; in `cause_ms` the cause was primary.
    """

    start_ms: int
    end_ms: int
    held_ms: int
    wasted_ms: int
    cause_ms: int


@dataclass(frozen=True, slots=True)
class Effect:
    """Useful shares before and after, 0 to 1, and the interval of their difference; None without runs enough.

    `saved_low_ms` to `saved_high_ms`: GPU time that all runs since then did not take and did not waste; 0 unless runs became shorter.
    """

    outcome: Outcome
    runs_before: int
    runs_after: int
    before: float | None = None
    after: float | None = None
    low: float | None = None
    high: float | None = None
    saved_low_ms: int = 0
    saved_high_ms: int = 0


def effect(runs: Sequence[Run], at_ms: int) -> Effect:
    """What changed at that moment; a run that goes on then is on neither side."""
    known = sorted((run for run in runs if run.held_ms > 0), key=lambda run: run.start_ms)
    before = [run for run in known if run.end_ms <= at_ms][-MOST_RUNS:]
    after = [run for run in known if run.start_ms >= at_ms]
    if len(before) < MIN_RUNS or len(after) < MIN_RUNS:
        return Effect(Outcome.WAITING, len(before), len(after))
    old, new = _resampled(before, SEED), _resampled(after, SEED + 1)
    low, high = (float(bound) for bound in np.percentile(_useful(new) - _useful(old), BOUNDS))
    saved = [round(float(bound)) * len(after) for bound in np.percentile(_saved_per_run(old, new), BOUNDS)]
    is_proven = saved[0] > 0
    return Effect(
        _outcome(before, after, low=low),
        len(before),
        len(after),
        before=_useful_share(before),
        after=_useful_share(after),
        low=low,
        high=high,
        saved_low_ms=saved[0] if is_proven else 0,
        saved_high_ms=saved[1] if is_proven else 0,
    )


def changed_at(runs: Sequence[Run]) -> int | None:
    """The start of the first run since which the cause is gone for good, if it took a part of the time before; else None."""
    known = sorted((run for run in runs if run.held_ms > 0), key=lambda run: run.start_ms)
    for first in range(MIN_RUNS, len(known) - MIN_RUNS + 1):
        share = _cause_share(known[:first])
        if share >= NOTICED_SHARE and all(_cause_share([run]) < BACK * share for run in known[first:]):
            # the first that splits them so is the earliest change
            return known[first].start_ms
    return None


def _outcome(before: Sequence[Run], after: Sequence[Run], *, low: float) -> Outcome:
    bound = BACK * _cause_share(before)
    was_away = len(after) > RECENT and _cause_share(after[:-RECENT]) < bound
    if was_away and 0 < bound <= _cause_share(after[-RECENT:]):
        return Outcome.REGRESSED
    return Outcome.IMPROVED if low > 0 else Outcome.UNPROVEN


def _cause_share(runs: Sequence[Run]) -> float:
    return sum(run.cause_ms for run in runs) / sum(run.held_ms for run in runs)


def _useful_share(runs: Sequence[Run]) -> float:
    return 1 - sum(run.wasted_ms for run in runs) / sum(run.held_ms for run in runs)


def _resampled(runs: Sequence[Run], seed: int) -> Floats:
    """Means of held and wasted time of DRAWS samples of the runs with replacement: 2 x DRAWS."""
    figures = np.array([(run.held_ms, run.wasted_ms) for run in runs], dtype=np.float64)
    picks = np.random.default_rng(seed).integers(0, len(runs), (DRAWS, len(runs)))
    means: Floats = figures[picks].mean(axis=1).T
    return means


def _useful(means: Floats) -> Floats:
    held, wasted = means
    result: Floats = 1 - wasted / held
    return result


def _saved_per_run(old: Floats, new: Floats) -> Floats:
    """Of each draw: by how much runs became shorter, at most the waste that went away."""
    result: Floats = np.min(old - new, axis=0)
    return result
