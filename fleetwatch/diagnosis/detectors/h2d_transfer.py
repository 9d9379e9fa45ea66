"""The GPU waits while data is copied to it.

A link that is 40 % full counts as much, but no agent reads a link's generation and width. Of every full link (PCIe 3 x16 and
faster: 15.75e9 bytes/s) 40 % are more than COPIES; of a narrower one nothing is said below COPIES.
"""

from fleetwatch.diagnosis.features import SHORT, Features
from fleetwatch.diagnosis.rules import MEDIUM, Detector, Found, all_met, at_least, below, found

MIB = 1024 * 1024
UTIL = 0.85
PAUSES = 0.10  # share of time below 10 % utilisation
COPIES = 4000 * MIB  # bytes/s to the GPU, as a mean


def find(f: Features) -> Found:
    """Known only where PCIe traffic and the driver's samples are read; without the traffic pauses may still be copies."""
    pauses, copies = (below(f, "util", UTIL), at_least(f, "lo", PAUSES)), at_least(f, "rx", COPIES)
    signs = (*pauses, copies)
    is_unknown = all_met(pauses) & ~f.has("rx")
    return found(all_met(signs), confidence=MEDIUM, low=0.3 * f["lo"], high=0.8 * f["lo"], signs=signs, possible=is_unknown)


DETECTOR = Detector("h2d_transfer", (SHORT,), find)
