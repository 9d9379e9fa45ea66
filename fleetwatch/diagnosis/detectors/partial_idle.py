"""Some GPUs of a job are never used while the others work: asked for more than the program takes."""

from fleetwatch.diagnosis.features import SHORT, Features
from fleetwatch.diagnosis.rules import HIGH, Detector, Found, all_met, at_least, below, found

UNUSED_UTIL = 0.02  # maximum over the window: what monitoring itself draws
USED_UTIL = 0.20  # mean of the job's busiest GPU
GPUS = 2


def find(f: Features) -> Found:
    """The unused GPUs alone are affected."""
    signs = (at_least(f, "job_gpus", GPUS), below(f, "util_max", UNUSED_UTIL), at_least(f, "job_util_max", USED_UTIL))
    return found(all_met(signs), confidence=HIGH, low=0.9, high=1.0, signs=signs)


DETECTOR = Detector("partial_idle", (SHORT,), find, is_of_running_work=False, holds_of_shared=True)
