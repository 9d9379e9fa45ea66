"""The job stands still at regular times, on all its GPUs: a synchronous checkpoint, or something
that looks like one.
"""

import numpy as np

from fleetwatch.diagnosis.cause import FASTER, HOURS, PY_SPY, Cause, Step
from fleetwatch.diagnosis.judgement.features import LONG, MIDDLE, SHORT, Features
from fleetwatch.diagnosis.judgement.rules import (
    HIGH,
    MEDIUM,
    Detector,
    Judged,
    all_met,
    any_met,
    at_least,
    below,
    contradicts,
    judged,
)
from fleetwatch.ledger.judgement.observations import Mask

PAUSES = 3
SHARE = 0.08  # of the time
VARIATION = 0.5  # of the time between them
PERIOD_S = 60.0
WORKING = 0.4  # share of time at 90 % and more: between pauses it works
TOGETHER = 0.8  # correlation with the job's other GPUs
WRITES = 200e6  # bytes/s of the node, as a mean: a checkpoint is gigabytes
BURST = 4 * 1024**3  # bytes/s from a GPU: what it copies out at the pause's beginning


def find(f: Features) -> Judged:
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
    confidence = np.where(any_met(writes), HIGH, MEDIUM)
    share = f["long_frac"]
    return judged(
        signs,
        confidence=confidence,
        hits=hits,
        recoverable=(0.5 * share, 0.9 * share),
        strengthens=(*writes, together),
    )


def shows(f: Features) -> Mask:
    """A cell has a pause in it."""
    return at_least(f, "long_n", 1).met


CAUSE = Cause(
    code="checkpoint_stall",
    has_rhythm=True,
    title="Waits for checkpoints",
    sentence=(
        "At regular times all the job's GPUs stand still, as for a checkpoint that is written"
        " before the next step."
    ),
    looks="Long pauses at even intervals, on all ranks together, between stretches of full work.",
    sensors="utilisation samples; disk writes or PCIe bursts make it sure",
    fixes=(
        Step(
            "Write in the background (needs host memory for one copy of each rank's state).",
            "torch.distributed.checkpoint.async_save(state_dict, checkpoint_id=path)",
        ),
        Step("Save a sharded state dict to the node's NVMe and upload it afterwards."),
        Step(
            "Save less often: the best interval is √(2 · seconds per save · mean seconds"
            " between failures)."
        ),
    ),
    effort=HOURS,
    range_words=FASTER,
    alike=(
        "An evaluation pass, the end of an epoch, or loader workers that start again look the same."
    ),
    tell=(
        Step(
            "Does it log a save or an evaluation at these times? If an epoch ends there, keep"
            " the workers.",
            "DataLoader(..., persistent_workers=True)",
        ),
        Step("See where it stands during a pause.", PY_SPY),
    ),
    detectors=(Detector(find, (SHORT, MIDDLE, LONG), shows=shows),),
)
