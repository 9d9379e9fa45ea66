"""Slowed down by heat or power delivery: the machine's fault, not the user's."""

from functools import partial

import numpy as np

from fleetwatch.diagnosis.cause import ADMIN, HOURS, Cause, Machine, Step
from fleetwatch.diagnosis.judgement.features import Features
from fleetwatch.diagnosis.judgement.rules import HIGH, Detector, Judged, at_least, below, judged
from fleetwatch.diagnosis.shell import drain

# share of time in hardware or thermal slow-down; a software power cap at full load is normal
THROTTLED = 0.10
CLOCK = 0.85  # SM clock by its maximum
UTIL = 0.50  # below it a clock says nothing
OF_SEVERAL = (
    "Until it is mended, take its node out of service (a scheduler drains nodes, not GPUs): of a"
    " synchronous job the slowest rank sets the pace."
)
LIMITS = "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER"
AIRFLOW = Step("Check airflow, fans, power supplies and the neighbours in the rack.")


def find(f: Features) -> Judged:
    """Known only where the throttle counters are read.

    What was lost is the missing clock: at least as if it was evenly low, at most all of it in the
    time in which it was held down, and no more than that time.
    """
    signs = (at_least(f, "thr", THROTTLED), below(f, "clk", CLOCK), at_least(f, "util", UTIL))
    missing = 1.0 - f["clk"]
    lost = (missing * f["thr"], np.minimum(missing, f["thr"]))
    return judged(signs, confidence=HIGH, recoverable=lost)


CAUSE = Cause(
    code="throttled",
    title="Slowed by heat or power",
    sentence=(
        "The hardware lowers the clock to protect itself: the job runs slower through no fault of"
        " its own."
    ),
    looks=(
        "The driver counts thermal or power-brake slow-down while the clock is well below its"
        " maximum."
    ),
    sensors="throttle counters and clocks",
    fixes=(
        Step("See which limit holds it back.", LIMITS),
        AIRFLOW,
        Step(OF_SEVERAL),
    ),
    effort=HOURS,
    range_words="what the full clock would bring back of the time counted as wasted or potential",
    who=ADMIN,
    detectors=(Detector(find, holds_of_shared=True),),
    command=partial(drain, reason="GPU slowed by heat or power"),
    command_of=2,
    when_over=(
        Step("See whether a limit still holds it back.", LIMITS),
        Step("It runs at its clock again: put its node back into service, if it was taken out."),
        AIRFLOW,
    ),
    machine=Machine(
        curve="GPUs judged slowed",
        how="slower than they could be",
        past="Was slowed by heat or power",
        past_sentence=(
            "The hardware lowered the clock to protect itself: jobs ran slower through no fault of"
            " their own."
        ),
    ),
)
