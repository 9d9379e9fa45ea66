"""A finished script, a forgotten notebook: all the job's GPUs are idle while a process or memory
holds them.
"""

import numpy as np

from fleetwatch.diagnosis.features import SHORT, Features
from fleetwatch.diagnosis.rules import (
    HIGH,
    LOW,
    Detector,
    Found,
    Sign,
    all_met,
    at_least,
    below,
    found,
)

PAUSE_S = 600.0  # of a session: longer than between two cells of work
QUIET = 0.05  # mean utilisation

IDLE = 0.5  # of the cell: the ledger has judged the whole run, this only assigns its edges


def all_idle(f: Features) -> tuple[Sign, ...]:
    """The ledger calls this GPU idle and every other GPU of the job too (docs/ledger.md says from
    when on).
    """
    return at_least(f, "ledger_idle", IDLE), at_least(f, "job_ledger_idle_min", IDLE)


def find(f: Features) -> Found:
    """After allocated_no_process: what is left is held by something."""
    signs = all_idle(f)
    return found(all_met(signs), confidence=HIGH, low=0.9, high=1.0, signs=signs)


def find_thinking(f: Features) -> Found:
    """A session whose pauses are too short for the ledger to call it idle: a person who thinks, or
    one who left.
    """
    is_interactive = np.array([kind == "interactive" for kind in f.lanes.kind], dtype=bool)[:, None]
    signs = (below(f, "util", QUIET), at_least(f, "longest_low_s", PAUSE_S))
    return found(all_met(signs) & is_interactive, confidence=LOW, low=0.0, high=0.9, signs=signs)


DETECTOR = Detector("idle_held", (1,), find, is_of_running_work=False, holds_of_shared=True)
THINKING = Detector(
    "idle_held", (SHORT,), find_thinking, is_of_running_work=False, holds_of_shared=True
)
