"""A finished script, a forgotten notebook: all the job's GPUs are idle while a process or memory holds them."""

from fleetwatch.diagnosis.features import Features
from fleetwatch.diagnosis.rules import HIGH, Detector, Found, Sign, all_met, at_least, found

IDLE = 0.5  # of the cell: the ledger has judged the whole run, this only assigns its edges


def all_idle(f: Features) -> tuple[Sign, ...]:
    """The ledger calls this GPU idle and every other GPU of the job too (docs/ledger.md says from when on)."""
    return at_least(f, "ledger_idle", IDLE), at_least(f, "job_ledger_idle_min", IDLE)


def find(f: Features) -> Found:
    """After allocated_no_process: what is left is held by something."""
    signs = all_idle(f)
    return found(all_met(signs), confidence=HIGH, low=0.9, high=1.0, signs=signs)


DETECTOR = Detector("idle_held", (1,), find, is_of_running_work=False)
