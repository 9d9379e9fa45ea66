"""Limited by memory bandwidth: near the roofline of what it does, often for good reason."""

import numpy as np

from fleetwatch.diagnosis.features import SHORT, Features
from fleetwatch.diagnosis.rules import HIGH, MEDIUM, Detector, Found, all_met, at_least, below, found

UTIL, DRAM, TENSOR = 0.85, 0.55, 0.15
ROOFLINE = 0.75  # practical peak is about 80 %


def find(f: Features) -> Found:
    """Known only where the profiling counters are read; above ROOFLINE nothing is promised."""
    signs = (at_least(f, "util_lowest", UTIL), at_least(f, "dram", DRAM), below(f, "ten", TENSOR))
    is_at_roof = at_least(f, "dram", ROOFLINE)
    return found(
        all_met(signs), confidence=np.where(is_at_roof.met, HIGH, MEDIUM), low=0.0, high=np.where(is_at_roof.met, 0.1, 0.4),
        signs=signs, strengthens=(is_at_roof,),
    )  # fmt: skip


DETECTOR = Detector("memory_bound", (SHORT,), find)
