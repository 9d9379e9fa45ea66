"""Ranks spin: busy by their utilisation, near idle by their power, waiting for another rank."""

from fleetwatch.diagnosis.features import SHORT, Features
from fleetwatch.diagnosis.rules import MEDIUM, Detector, Found, all_met, at_least, below, found, less_sure

GPUS, UTIL = 2, 0.85
SPIN = 0.30  # share of time
POWER = 0.35  # power ratio, as a mean


def find(f: Features) -> Found:
    """What neither a hang, nor one slow rank, nor a checkpoint's rhythm explains."""
    signs = (at_least(f, "job_gpus", GPUS), at_least(f, "util", UTIL), at_least(f, "spin", SPIN), below(f, "pr", POWER))
    confidence = less_sure(MEDIUM, ~f.has("ten", "dram"))
    return found(all_met(signs), confidence=confidence, low=0.3 * f["spin"], high=0.9 * f["spin"], signs=signs)


DETECTOR = Detector("rank_wait", (SHORT,), find)
