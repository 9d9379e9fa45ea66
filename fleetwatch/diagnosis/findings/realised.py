"""What a fix brought: runs of one recurring job before it and after it, compared. Pure.

Nothing here knows whether two runs did the same work. So a share of useful time that rose is told
as "utilisation improved"; hours count as saved only where runs became shorter, and never more of
them than the waste that went away.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import sqrt

import numpy as np

from fleetwatch.ledger.judgement.observations import Floats

MIN_RUNS = 3  # on each side; with fewer an interval says nothing
MOST_RUNS = 50  # on each side, those nearest to the fix
DRAWS, SEED = 2000, 5  # of the bootstrap: the same runs always give the same interval
BOUNDS = (2.5, 97.5)  # percentiles: a 95 % interval
NORMAL = 1.96  # its bound in standard errors, and Student's, by degrees of freedom
STUDENT = {
    2: 4.303,
    3: 3.182,
    4: 2.776,
    5: 2.571,
    6: 2.447,
    8: 2.306,
    10: 2.228,
    15: 2.131,
    20: 2.086,
    30: 2.042,
    60: 2.0,
}
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

    `held_ms` is what telemetry told of; `wasted_ms` of it was idle, stalled or underused; in
    `cause_ms` the cause was primary.
    """

    start_ms: int
    end_ms: int
    held_ms: int
    wasted_ms: int
    cause_ms: int


@dataclass(frozen=True, slots=True)
class Effect:
    """Useful shares before and after, 0 to 1, and the interval of their difference; None without
    runs enough.

    `saved_low_ms` to `saved_high_ms`: GPU time that all runs since then did not take and did not
    waste; 0 unless runs became shorter.
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
    sizes = len(before), len(after)
    share, waste_ms = _useful_share(before), sum(run.wasted_ms for run in before) / len(before)
    low, high = np.clip(_interval(_useful(old), _useful(new), sizes), -share, 1 - share)
    # of a run: by how much it became shorter, at most the waste that went away
    shorter, less_waste = (
        _interval(now, then, sizes[::-1]) for then, now in zip(old, new, strict=True)
    )
    saved = [
        round(min(*bounds, waste_ms)) * len(after)
        for bounds in zip(shorter, less_waste, strict=True)
    ]
    is_proven = saved[0] > 0
    return Effect(
        _outcome(before, after, low=float(low)),
        len(before),
        len(after),
        before=share,
        after=_useful_share(after),
        low=float(low),
        high=float(high),
        saved_low_ms=saved[0] if is_proven else 0,
        saved_high_ms=saved[1] if is_proven else 0,
    )


def changed_at(runs: Sequence[Run]) -> int | None:
    """The start of the first run since which the cause is gone for good, if it took a part of the
    time before; else None.
    """
    known = sorted((run for run in runs if run.held_ms > 0), key=lambda run: run.start_ms)
    for first in range(MIN_RUNS, len(known) - MIN_RUNS + 1):
        share = _cause_share(known[:first])
        if share >= NOTICED_SHARE and all(
            _cause_share([run]) < BACK * share for run in known[first:]
        ):
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


def _interval(old: Floats, new: Floats, sizes: tuple[int, int]) -> tuple[float, float]:
    """95 % of the differences new - old of resampled means, as wide as the sides' few runs make it
    (Welch's degrees of freedom).

    Resamples of few runs spread too little: of three and three, 95 % of them hold the truth in 80 %
    of cases.
    """
    differences = new - old
    middle = float(differences.mean())
    low, high = (float(bound) for bound in np.percentile(differences, BOUNDS))
    factor = _widening((float(old.var()), float(new.var())), sizes)
    return middle + factor * (low - middle), middle + factor * (high - middle)


def _widening(variances: tuple[float, float], sizes: tuple[int, int]) -> float:
    """How much wider than resamples say: for variances of means that divide by n, not n - 1, and
    for Student's instead of NORMAL.
    """
    if not sum(variances):
        return 1.0
    unbiased = [variance * n / (n - 1) for variance, n in zip(variances, sizes, strict=True)]
    freedom = sum(unbiased) ** 2 / sum(
        each**2 / (n - 1) for each, n in zip(unbiased, sizes, strict=True)
    )
    bound = np.interp(
        -1 / freedom, [*(-1 / known for known in STUDENT), 0.0], [*STUDENT.values(), NORMAL]
    )
    return float(bound) / NORMAL * sqrt(sum(unbiased) / sum(variances))
