"""The GPU can't work: the ledger calls it unavailable, or its memory has new errors."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from fleetwatch.diagnosis.cause import ADMIN, HOURS, Cause, Facts, Machine, Overruled, Step
from fleetwatch.diagnosis.judgement.features import Features
from fleetwatch.diagnosis.judgement.rules import HIGH
from fleetwatch.diagnosis.shell import drain
from fleetwatch.ledger.judgement.observations import Mask

DOWN = 0.5  # of the cell: the ledger calls it unavailable
MEMORY_ERRORS = 1  # uncorrected ones, new in the cell
# A drained node is no fault, and a GPU that works while memory errors are counted can work.
ENTRIES = """
SELECT node_id, gpu_id, '', start, 'gpu_fault', sum(gpu_ms), sum(gpu_ms), sum(gpu_ms)
FROM spent
WHERE state = 'unavailable' AND reason <> 'drained'
GROUP BY node_id, gpu_id, start
"""

OUT_OF_SERVICE = Step("Take the node out of service.")  # by the command of its scheduler
DRAIN = "scontrol update nodename=NODE state=drain reason='GPU fault'"
RESET = Step(
    "Reset the GPU when nothing runs on it.",
    "nvidia-smi --gpu-reset -i INDEX",
)
REBOOT = Step(
    "Where the driver lost the GPU (XID 79) no reset reaches it: reboot the node, or power-cycle it"
    " where that does not bring the GPU back."
)
LOST = Step(
    "The driver lost the GPU (XID 79), and no reset reaches it: reboot the node when nothing else"
    " runs there, or power-cycle it where that does not bring the GPU back.",
    "sudo reboot",
)

IF_AGAIN = "Have the GPU replaced if this comes back."
AGAIN = "have {} replaced: it is the {}."  # the GPU, and how often it was so


def reset(facts: Facts) -> Step | None:
    """None where no reset reaches the GPU."""
    return None if facts.is_lost else RESET


def reboot(facts: Facts) -> Step:
    """What reaches a GPU that its driver lost."""
    return LOST if facts.is_lost else REBOOT


def replacement(facts: Facts) -> Step:
    """Of GPUs that failed before which one to replace, and why; of others when."""
    again = (AGAIN.format(name, often) for name, often in facts.again)
    return Step(" ".join(text[:1].upper() + text[1:] for text in again) or IF_AGAIN)


OF_APPLICATIONS = (13, 31, 43, 45)  # XIDs


def broken(now: Features, _: Mask) -> Iterator[Overruled]:
    """Cells with new memory errors, none of which is blocked: the GPU goes on working; then those
    in which it can't work.
    """
    yield now["memory_errors"] >= MEMORY_ERRORS, HIGH, 0.0
    yield now["ledger_unavailable"] >= DOWN, HIGH, 1.0


CAUSE = Cause(
    code="gpu_fault",
    title="GPU can't work",
    sentence="The GPU failed: jobs on it can't make progress until it is reset or replaced.",
    looks=(
        "A hardware XID, a recovery action, a failed remap, new uncorrected memory errors, or the"
        " driver lost the GPU."
    ),
    sensors="the agent's events (XID) and the driver's health fields",
    fixes=(
        Step("Take the node out of service.", DRAIN, fitted=lambda _: OUT_OF_SERVICE),
        replace(RESET, fitted=reset),
        replace(REBOOT, fitted=reboot),
        Step(IF_AGAIN, fitted=replacement),
    ),
    effort=HOURS,
    range_words=(
        "the GPU's hours from then on, for other jobs: capacity, no part of what jobs wasted"
    ),
    alike=(
        f"An application can trigger some XIDs ({', '.join(map(str, OF_APPLICATIONS))}): the same"
        " code on another GPU tells."
    ),
    who=ADMIN,
    overrule=broken,
    is_alone=True,
    command=partial(drain, reason="GPU fault"),
    when_over=(
        Step("It works again: put its node back into service, if it was taken out of it."),
        Step(IF_AGAIN, fitted=replacement),
    ),
    machine=Machine(
        curve="GPUs that could not work",
        worth="capacity that could not work",
        entries=ENTRIES,
        episode="outage",
        is_failure=True,
        past="Was broken",
        past_sentence=(
            "The GPU failed: jobs on it could make no progress until it was reset or replaced."
        ),
    ),
)
