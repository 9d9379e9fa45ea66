"""Memory is given back and taken again all the time: a cache that is emptied in the loop."""

from fleetwatch.diagnosis.features import SHORT, Features
from fleetwatch.diagnosis.rules import LOW, Detector, Found, all_met, at_least, found

DROPS = 1.0  # per minute, each of a fifth of the GPU's memory
DIPS = 1.0  # per minute


def find(f: Features) -> Found:
    """Fragmentation itself can't be seen from outside: the allocator caches."""
    signs = (at_least(f, "memory_drops_per_min", DROPS), at_least(f, "dips_per_min", DIPS))
    return found(all_met(signs), confidence=LOW, low=0.0, high=0.2, signs=signs)


DETECTOR = Detector("oom_thrash", (SHORT,), find)
