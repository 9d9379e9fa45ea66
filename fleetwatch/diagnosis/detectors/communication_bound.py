"""Ranks exchange data while their compute units wait."""

import numpy as np

from fleetwatch.diagnosis.features import SHORT, Features
from fleetwatch.diagnosis.rules import MEDIUM, Detector, Found, all_met, at_least, below, found

GPUS, UTIL = 2, 0.85
SM, TENSOR = 0.70, 0.28
NETWORK = 2e9  # bytes/s, network or PCIe
NVLINK = 20e9
FULL_SM = 0.85


def find(f: Features) -> Found:
    """Known only where the profiling counters are read: low power alone has other reasons."""
    signs = (at_least(f, "job_gpus", GPUS), at_least(f, "util_lowest", UTIL), below(f, "sm", SM), below(f, "ten", TENSOR))
    traffic = (at_least(f, "nic_rx", NETWORK), at_least(f, "rx", NETWORK), at_least(f, "nvl", NVLINK))
    hits = all_met(signs) & np.logical_or.reduce([sign.met for sign in traffic])
    waits = 1.0 - f["sm"] / FULL_SM
    return found(hits, confidence=MEDIUM, low=0.3 * waits, high=0.7 * waits, signs=signs, strengthens=traffic)


DETECTOR = Detector("communication_bound", (SHORT,), find)
