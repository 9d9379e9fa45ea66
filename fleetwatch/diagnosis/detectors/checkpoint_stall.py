"""The job stands still at regular times, on all its GPUs: a synchronous checkpoint, or something
that looks like one.
"""

import numpy as np

from fleetwatch.diagnosis.features import LONG, MIDDLE, SHORT, Features, Mask
from fleetwatch.diagnosis.rules import (
    HIGH,
    MEDIUM,
    Detector,
    Found,
    all_met,
    at_least,
    below,
    contradicts,
    found,
)

PAUSES = 3
SHARE = 0.08  # of the time
VARIATION = 0.5  # of the time between them
PERIOD_S = 60.0
WORKING = 0.4  # share of time at 90 % and more: between pauses it works
TOGETHER = 0.8  # correlation with the job's other GPUs
WRITES = 200e6  # bytes/s of the node, as a mean: a checkpoint is gigabytes
BURST = 4 * 1024**3  # bytes/s from a GPU: what it copies out at the pause's beginning


def find(f: Features) -> Found:
    """Of what is no service.

    Sure where something is written too; an evaluation pass looks the same without it.
    """
    signs = (
        at_least(f, "long_n", PAUSES), at_least(f, "long_frac", SHARE),
        below(f, "long_cv", VARIATION),
        at_least(f, "long_per_s", PERIOD_S), at_least(f, "hi", WORKING),
    )  # fmt: skip
    writes = (at_least(f, "tx_max", BURST), at_least(f, "disk_write", WRITES))
    together = at_least(f, "corr", TOGETHER)
    # ranks that spin stay at 100 %, while the one that saves pauses: their utilisation need not
    # move together
    hits = all_met(signs) & ~(contradicts(together) & ~(f["job_spin_max"] > SHARE / 2))
    # a service saves no state between steps: its pauses are waiting for requests, however even they
    # look
    hits &= ~f.lanes.serves
    confidence = np.where(np.logical_or.reduce([sign.met for sign in writes]), HIGH, MEDIUM)
    share = f["long_frac"]
    return found(
        hits,
        confidence=confidence,
        low=0.5 * share,
        high=0.9 * share,
        signs=signs,
        strengthens=(*writes, together),
    )


def shows(f: Features) -> Mask:
    """A cell has a pause in it."""
    return at_least(f, "long_n", 1).met


DETECTOR = Detector("checkpoint_stall", (SHORT, MIDDLE, LONG), find, shows=shows)
