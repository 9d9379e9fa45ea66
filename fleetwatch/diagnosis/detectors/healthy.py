"""Working well, as far as the sensors tell; `busy` where they do not tell how well."""

import numpy as np

from fleetwatch.diagnosis.features import SHORT, Features
from fleetwatch.diagnosis.rules import HIGH, MEDIUM, Detector, Found, at_least, found

UTIL = 0.85
TENSOR = 0.15  # 30 to 45 % is excellent
POWER = 0.65  # power ratio
SM, FP64 = 0.60, 0.20  # double precision work


def find(f: Features) -> Found:
    """Only where the profiling counters are read: without them nothing is called healthy."""
    busy = at_least(f, "util", UTIL)
    well = (at_least(f, "ten", TENSOR), at_least(f, "pr", POWER), at_least(f, "fp64", FP64))
    hits = busy.met & f.has("ten") & np.logical_or.reduce([sign.met for sign in well])
    return found(hits, confidence=HIGH, low=0.0, high=0.0, signs=(busy,), strengthens=well)


def find_busy(f: Features) -> Found:
    """Busy, with an efficiency that nobody can measure on this GPU."""
    busy = at_least(f, "util", UTIL)
    return found(busy.met & ~f.has("ten"), confidence=MEDIUM, low=0.0, high=0.0, signs=(busy,))


DETECTOR = Detector("healthy", (SHORT,), find)
BUSY = Detector("busy", (SHORT,), find_busy)
