"""A large GPU for small work: little of its time and little of its memory are used."""

import numpy as np

from fleetwatch.diagnosis.features import Features
from fleetwatch.diagnosis.rules import MEDIUM, Detector, Found, all_met, at_least, below, found

ONE_HOUR = 12  # cells
UTIL = 0.30
USED = 0.02  # below it is idle, which has its own causes
MEMORY = 0.25  # of the GPU's, at its peak
HEADROOM = 1.3
# Shares of the GPU's memory and of its compute that a MIG slice has, smallest first (NVIDIA's MIG user guide: 1g, 2g, 3g):
# a slice costs what it has of the compute. A smaller GPU may cost less or more.
SLICES = ((1 / 8, 1 / 7), (2 / 8, 2 / 7), (4 / 8, 3 / 7))


def find(f: Features) -> Found:
    """The recoverable share is what is left of the price beside the smallest slice whose memory is HEADROOM times the peak."""
    signs = (below(f, "util", UTIL), at_least(f, "util", USED), below(f, "mem_max", MEMORY))
    need = HEADROOM * f["mem_max"]
    spared = 1.0 - np.select([need <= memory for memory, _ in SLICES], [compute for _, compute in SLICES], default=1.0)
    return found(all_met(signs), confidence=MEDIUM, low=0.5 * spared, high=spared, signs=signs)


DETECTOR = Detector("oversized_gpu", (ONE_HOUR,), find)
