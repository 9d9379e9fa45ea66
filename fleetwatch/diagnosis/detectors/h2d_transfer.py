"""The GPU waits while data is copied to it.

A link that is 40 % full counts as much, but no agent reads a link's generation and width. Of every
full link (PCIe 3 x16 and faster: 15.75e9 bytes/s) 40 % are more than COPIES; of a narrower one
nothing is said below COPIES.
"""

import numpy as np

from fleetwatch.diagnosis.features import SHORT, Features
from fleetwatch.diagnosis.rules import MEDIUM, Detector, Found, all_met, at_least, below, found

MIB = 1024 * 1024
UTIL = 0.85
PAUSES = 0.10  # share of time below 10 % utilisation
COPIES = 4000 * MIB  # bytes/s to the GPU, as a mean


def find(f: Features) -> Found:
    """Known only where PCIe traffic and the driver's samples are read; without the traffic pauses
    may still be copies.
    """
    signs, pauses = (below(f, "util", UTIL), at_least(f, "rx", COPIES)), at_least(f, "lo", PAUSES)
    is_unknown = signs[0].met & pauses.met & ~f.has("rx")
    waits = np.fmax(f["lo"], 1.0 - f["util"])  # pauses shorter than a sample read as a lower mean
    return found(
        all_met(signs),
        confidence=MEDIUM,
        low=0.3 * waits,
        high=0.8 * waits,
        signs=signs,
        strengthens=(pauses,),
        possible=is_unknown,
    )


DETECTOR = Detector("h2d_transfer", (SHORT,), find)
