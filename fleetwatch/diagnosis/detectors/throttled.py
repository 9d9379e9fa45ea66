"""Slowed down by heat or power delivery: the machine's fault, not the user's."""

from fleetwatch.diagnosis.features import SHORT, Features
from fleetwatch.diagnosis.rules import HIGH, Detector, Found, all_met, at_least, below, found

# share of time in hardware or thermal slow-down; a software power cap at full load is normal
THROTTLED = 0.10
CLOCK = 0.85  # SM clock by its maximum
UTIL = 0.50  # below it a clock says nothing


def find(f: Features) -> Found:
    """Known only where the throttle counters are read.

    What was lost is the missing clock, for as long as it was held down.
    """
    signs = (at_least(f, "thr", THROTTLED), below(f, "clk", CLOCK), at_least(f, "util", UTIL))
    lost = (1.0 - f["clk"]) * f["thr"]
    return found(all_met(signs), confidence=HIGH, low=lost, high=lost, signs=signs)


DETECTOR = Detector("throttled", (SHORT,), find, holds_of_shared=True)
