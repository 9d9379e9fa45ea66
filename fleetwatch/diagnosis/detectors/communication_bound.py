"""Ranks exchange data while their compute units wait."""

import numpy as np

from fleetwatch.diagnosis.features import SHORT, Features
from fleetwatch.diagnosis.rules import MEDIUM, Detector, Found, all_met, at_least, below, contradicts, found

GPUS, UTIL = 2, 0.85
NVLINK = 20e9  # bytes/s, both directions
NETWORK = 2e9  # bytes/s, network or PCIe
SM, TENSOR = 0.70, 0.28
EVEN = 0.85  # mean ÷ highest power: compute and exchange take turns, each with a power of its own
FULL_SM = 0.85


def find(f: Features) -> Found:
    """Known only where the profiling counters are read: low power alone has other reasons."""
    signs = (at_least(f, "job_gpus", GPUS), at_least(f, "util_lowest", UTIL), below(f, "sm", SM), below(f, "ten", TENSOR))
    links = (at_least(f, "nvl", NVLINK), at_least(f, "nic_rx", NETWORK), at_least(f, "rx", NETWORK))
    uneven = below(f, "pr_even", EVEN)
    hits = all_met(signs) & ~contradicts(uneven) & np.logical_or.reduce([sign.met for sign in links])
    waits = 1.0 - f["sm"] / FULL_SM
    return found(hits, confidence=MEDIUM, low=0.3 * waits, high=0.7 * waits, signs=signs, strengthens=(*links, uneven))


DETECTOR = Detector("communication_bound", (SHORT,), find)
