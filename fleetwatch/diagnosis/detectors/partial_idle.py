"""Some GPUs of a job are idle while others of it are not: asked for more than the program takes."""

from fleetwatch.diagnosis.detectors.idle_held import IDLE
from fleetwatch.diagnosis.features import SHORT, Features
from fleetwatch.diagnosis.rules import (
    HIGH,
    Detector,
    Found,
    all_met,
    at_least,
    below,
    found,
    less_sure,
)

UNUSED_UTIL = 0.02  # maximum over the window: what monitoring itself draws
USED_UTIL = 0.20  # mean of the job's busiest GPU
GPUS = 2


def find(f: Features) -> Found:
    """The unused GPUs alone are affected."""
    signs = (
        at_least(f, "job_gpus", GPUS),
        below(f, "util_max", UNUSED_UTIL),
        at_least(f, "job_util_max", USED_UTIL),
    )
    return found(all_met(signs), confidence=HIGH, low=0.9, high=1.0, signs=signs)


def find_idle(f: Features) -> Found:
    """What the ledger calls idle in a part of a job; less sure where nobody saw another GPU of it
    work.
    """
    signs = (
        at_least(f, "job_gpus", GPUS),
        at_least(f, "ledger_idle", IDLE),
        below(f, "job_ledger_idle_min", IDLE),
    )
    used = at_least(f, "job_util_max", USED_UTIL)
    return found(
        all_met(signs),
        confidence=less_sure(HIGH, ~used.met),
        low=0.9,
        high=1.0,
        signs=signs,
        strengthens=(used,),
    )


IDLE_BY_LEDGER = Detector(
    "partial_idle", (1,), find_idle, is_of_running_work=False, holds_of_shared=True
)
DETECTOR = Detector("partial_idle", (SHORT,), find, is_of_running_work=False, holds_of_shared=True)
