"""What a fix brought: runs of one recurring job before it and after it, compared. Pure.

Nothing here knows whether two runs did the same work. So a share of useful time that rose is told
as "utilisation improved"; hours count as saved only where runs became shorter, and never more of
them than the waste that went away.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import sqrt

import numpy as np

from fleetwatch.ledger.judgement.observations import Floats

MIN_RUNS = 3  # on each side; with fewer an interval says nothing
MOST_RUNS = 50  # on each side, those nearest to the fix
# of the bootstrap: the same runs always give the same interval
DRAWS = 2000
SEED = 5
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
    """One run of a recurring job (of a service one UTC day), in GPU-milliseconds: what telemetry
    told of by its primary cause, and what of it was idle, stalled or underused.
    """

    start_ms: int
    end_ms: int
    wasted_ms: int = 0
    by_cause: Counter[str] = field(default_factory=Counter)

    @property
    def held_ms(self) -> int:
        return self.by_cause.total()


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
    useful_before: float | None = None
    useful_after: float | None = None
    effect_low: float | None = None
    effect_high: float | None = None
    saved_low_ms: int = 0
    saved_high_ms: int = 0


def effect(runs: Sequence[Run], cause: str, at_ms: int) -> Effect:
    """What changed at that moment, of runs in which that was the cause; a run that goes on then is
    on neither side.
    """
    in_order = _by_start(runs)
    before = [run for run in in_order if run.end_ms <= at_ms][-MOST_RUNS:]
    after = [run for run in in_order if run.start_ms >= at_ms]
    sizes = (len(before), len(after))
    if min(sizes) < MIN_RUNS:
        return Effect(Outcome.WAITING, *sizes)
    return _compared(before, after, cause)


def _compared(before: Sequence[Run], after: Sequence[Run], cause: str) -> Effect:
    sizes = (len(before), len(after))
    old = _resampled(before, SEED)
    new = _resampled(after, SEED + 1)
    share = _useful_share(before)
    interval = _interval(_useful(old), _useful(new), sizes)
    low, high = np.clip(interval, -share, 1 - share).tolist()
    saved_low_ms, saved_high_ms = _saved(before, after, old, new)
    return Effect(
        _outcome(before, after, cause, low=low),
        *sizes,
        useful_before=share,
        useful_after=_useful_share(after),
        effect_low=low,
        effect_high=high,
        saved_low_ms=saved_low_ms,
        saved_high_ms=saved_high_ms,
    )


def _by_start(runs: Sequence[Run]) -> list[Run]:
    """Those that telemetry tells of."""
    return sorted((run for run in runs if run.held_ms > 0), key=lambda run: run.start_ms)


def _saved(
    before: Sequence[Run], after: Sequence[Run], old: Floats, new: Floats
) -> tuple[int, int]:
    """Of all runs after: by how much each became shorter, at most the waste that went away."""
    waste_ms = sum(run.wasted_ms for run in before) / len(before)
    sizes = (len(after), len(before))
    shorter, less_waste = (_interval(now, then, sizes) for then, now in zip(old, new, strict=True))
    low_ms, high_ms = (
        round(min(*bounds, waste_ms)) * len(after)
        for bounds in zip(shorter, less_waste, strict=True)
    )
    return (low_ms, high_ms) if low_ms > 0 else (0, 0)


def changed_at(runs: Sequence[Run], cause: str) -> int | None:
    """The start of the first run since which the cause is gone for good, if it took a part of the
    time before; else None.
    """
    in_order = _by_start(runs)
    for first in range(MIN_RUNS, len(in_order) - MIN_RUNS + 1):
        share = _cause_share(in_order[:first], cause)
        if share >= NOTICED_SHARE and all(
            _cause_share([run], cause) < BACK * share for run in in_order[first:]
        ):
            # the first that splits them so is the earliest change
            return in_order[first].start_ms
    return None


def _outcome(before: Sequence[Run], after: Sequence[Run], cause: str, *, low: float) -> Outcome:
    bound = BACK * _cause_share(before, cause)
    was_away = len(after) > RECENT and _cause_share(after[:-RECENT], cause) < bound
    if was_away and 0 < bound <= _cause_share(after[-RECENT:], cause):
        return Outcome.REGRESSED
    return Outcome.IMPROVED if low > 0 else Outcome.UNPROVEN


def _cause_share(runs: Sequence[Run], cause: str) -> float:
    return sum(run.by_cause[cause] for run in runs) / sum(run.held_ms for run in runs)


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
    inverse = [*(-1 / degrees for degrees in STUDENT), 0.0]
    bound = np.interp(-1 / freedom, inverse, [*STUDENT.values(), NORMAL])
    return float(bound) / NORMAL * sqrt(sum(unbiased) / sum(variances))
