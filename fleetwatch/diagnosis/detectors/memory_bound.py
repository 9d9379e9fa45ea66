"""Limited by memory bandwidth: near the roofline of what it does, often for good reason."""

import numpy as np

from fleetwatch.diagnosis.features import SHORT, Features, ratio
from fleetwatch.diagnosis.rules import (
    HIGH,
    MEDIUM,
    Detector,
    Found,
    Sign,
    all_met,
    at_least,
    below,
    contradicts,
    found,
)

UTIL, DRAM, TENSOR = 0.85, 0.40, 0.15
FP64 = 0.20  # from here on double precision is the work
LEADS = 1.2  # how far DRAM lies on its way to what is reached in practice, by how far the SMs are
FULL_DRAM, FULL_SM = 0.75, 0.85
MUCH = 0.55  # whatever the SMs do
ROOFLINE = 0.75  # practical peak is about 80 %


def find(f: Features) -> Found:
    """Known only where the profiling counters are read; above ROOFLINE nothing is promised."""
    leads = Sign(
        "dram_leads", ratio(f["dram"] / FULL_DRAM, f["sm"] / FULL_SM), LEADS, is_lower_bound=True
    )
    signs = (at_least(f, "util_lowest", UTIL), at_least(f, "dram", DRAM), below(f, "ten", TENSOR))
    double, much = below(f, "fp64", FP64), at_least(f, "dram", MUCH)
    is_at_roof = at_least(f, "dram", ROOFLINE)
    hits = all_met(signs) & ~contradicts(double) & (much.met | leads.met)
    confidence, high = np.where(is_at_roof.met, HIGH, MEDIUM), np.where(is_at_roof.met, 0.1, 0.4)
    return found(
        hits,
        confidence=confidence,
        low=0.0,
        high=high,
        signs=signs,
        strengthens=(much, leads, is_at_roof, double),
    )


DETECTOR = Detector("memory_bound", (SHORT,), find)
