"""A service that waits for requests most of the time, with its model in memory."""

import numpy as np

from fleetwatch.diagnosis.features import SHORT, Features
from fleetwatch.diagnosis.rules import LOW, MEDIUM, Detector, Found, all_met, at_least, found

PAUSES = 0.30
LONG_PAUSES = 0.15  # share of time in pauses of five seconds and more
LONGEST_S = 10.0
FULL = 0.70  # utilisation at which one more replica is wanted
HELD = 0.02  # of the GPU's memory: a model


def find(f: Features) -> Found:
    """Irregular pauses; without the driver's samples only for what is known to be a service."""
    is_service = np.array([kind == "service" for kind in f.lanes.kind], dtype=bool)[:, None] | f.lanes.is_serving[:, None]
    sampled = at_least(f, "lo", PAUSES)
    by_window = at_least(f, "window_lo", PAUSES)
    signs = (at_least(f, "long_frac", LONG_PAUSES), at_least(f, "longest_low_s", LONGEST_S))
    # a person thinks between cells: that is no service
    is_interactive = np.array([kind == "interactive" for kind in f.lanes.kind], dtype=bool)[:, None]
    hits = ~is_interactive & all_met(signs) & (sampled.met | (by_window.met & is_service & np.isnan(sampled.values)))
    spare = 1.0 - f["util"] / FULL
    confidence = np.where(is_service, MEDIUM, LOW)
    return found(
        hits, confidence=confidence, low=0.5 * spare, high=spare, signs=signs, strengthens=(sampled, by_window, at_least(f, "mem", HELD))
    )


DETECTOR = Detector("bursty_service", (SHORT,), find)
