"""A large GPU for small work: little of its time and little of its memory are used."""

from fleetwatch.diagnosis.features import Features
from fleetwatch.diagnosis.rules import MEDIUM, Detector, Found, all_met, at_least, below, found

ONE_HOUR = 12  # cells
UTIL = 0.30
USED = 0.02  # below it is idle, which has its own causes
MEMORY = 0.25  # of the GPU's, at its peak


def find(f: Features) -> Found:
    """The share that is recoverable is that of the next smaller GPU or slice whose memory is 1.3 times the peak."""
    signs = (below(f, "util", UTIL), at_least(f, "util", USED), below(f, "mem_max", MEMORY))
    smaller = 1.0 - 1.3 * f["mem_max"]
    return found(all_met(signs), confidence=MEDIUM, low=0.5 * smaller, high=smaller, signs=signs)


DETECTOR = Detector("oversized_gpu", (ONE_HOUR,), find)
