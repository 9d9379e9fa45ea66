"""One rank is slower than the others, which wait for it in every step."""

import numpy as np

from fleetwatch.diagnosis.features import SHORT, Features, Mask
from fleetwatch.diagnosis.rules import MEDIUM, Detector, Found, Sign, all_met, at_least, found

GPUS = 2
UTIL = 0.60  # of every rank: they are all at work
CLOCK = 0.90  # of the job's median
MADS = 3.0  # median absolute deviations from the job's median
POINTS = 0.15  # and at least so much
COMPARED = ("ten", "pr_max")
RANKS_FOR_MAD = 4  # with fewer ranks the deviation of the deviant decides its own median


def find(f: Features) -> Found:
    """All of the job is affected: the waiting ranks and the one that they wait for."""
    signs = (at_least(f, "job_gpus", GPUS), at_least(f, "job_util_min", UTIL))
    slow_clock = f["job_clk_min"] / f["job_clk_median"]
    deviates = {name: _largest_deviation(f, name) for name in COMPARED}
    is_slow = slow_clock < CLOCK
    is_other = np.logical_or.reduce([found_of > POINTS for found_of in deviates.values()])
    lost = np.fmax(1.0 - slow_clock, 0.0)
    evidence = (
        Sign("rank_clock", slow_clock, CLOCK, is_lower_bound=False),
        *(Sign(f"rank_{name}", values, POINTS, is_lower_bound=True) for name, values in deviates.items()),
    )
    hits: Mask = all_met(signs) & (is_slow | is_other)
    return found(hits, confidence=MEDIUM, low=0.5 * lost, high=np.fmax(lost, 0.3), signs=signs, strengthens=evidence)


def _largest_deviation(f: Features, name: str) -> np.ndarray:
    """How far the rank that is farthest from the job's median lies from it; 0 where that is within the ranks' own spread."""
    median, mad = f[f"job_{name}_median"], f[f"job_{name}_mad"]
    farthest = np.fmax(f[f"job_{name}_max"] - median, median - f[f"job_{name}_min"])
    is_far = (f["job_gpus"] >= RANKS_FOR_MAD) & (farthest > MADS * mad)
    return np.where(np.isnan(farthest), np.nan, np.where(is_far, farthest, 0.0))


DETECTOR = Detector("straggler", (SHORT,), find)
