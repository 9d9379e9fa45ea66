"""Held, and nothing ever runs on it: all the job's GPUs are idle and no process has a context."""

from fleetwatch.diagnosis.cause import EMPTY, FREED, MINUTES, Cause, Step
from fleetwatch.diagnosis.judgement.features import Features
from fleetwatch.diagnosis.judgement.rules import (
    HIGH,
    OF_IDLE,
    Detector,
    Judged,
    all_idle,
    below,
    judged,
)
from fleetwatch.diagnosis.shell import ending

NO_PROCESS = 0.5  # processes, as a maximum: whole numbers below it are none


def find(f: Features) -> Judged:
    """Known only where processes are read: memory alone does not tell a context from none."""
    signs = (*all_idle(f), below(f, "processes", NO_PROCESS))
    return judged(signs, confidence=HIGH, recoverable=(0.9, 1.0))


CAUSE = Cause(
    code="allocated_no_process",
    title="Idle: held, nothing runs",
    sentence="The job holds GPUs on which no process has a context.",
    looks="All the job's GPUs are idle and no process is on them.",
    sensors="utilisation and processes",
    fixes=(
        Step("Release the job: what its script does beside the GPUs is lost with it."),
        Step(
            "Look why nothing reached the GPUs: a shell left open, a script that crashed, or one"
            " that waits for its other nodes or its data."
        ),
        Step(
            "Ask for GPUs only for the step that uses them, in a job of its own: they are given"
            " back when it ends."
        ),
    ),
    effort=MINUTES,
    range_words=FREED,
    detectors=(Detector(find, (1,), holds_of_shared=True, turn=OF_IDLE),),
    idle=EMPTY,
    is_alone=True,
    command=ending,
    is_ended=True,
)
