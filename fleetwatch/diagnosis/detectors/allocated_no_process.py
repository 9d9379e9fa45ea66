"""Held, and nothing ever runs on it: all the job's GPUs are idle and no process has a context."""

from fleetwatch.diagnosis.detectors.idle_held import all_idle
from fleetwatch.diagnosis.features import Features
from fleetwatch.diagnosis.rules import HIGH, Detector, Found, all_met, below, found

NO_PROCESS = 0.5  # processes, as a maximum: whole numbers below it are none


def find(f: Features) -> Found:
    """Known only where processes are read: memory alone does not tell a context from none."""
    signs = (*all_idle(f), below(f, "processes", NO_PROCESS))
    return found(all_met(signs), confidence=HIGH, low=0.9, high=1.0, signs=signs)


DETECTOR = Detector(
    "allocated_no_process", (1,), find, is_of_running_work=False, holds_of_shared=True
)
