"""Some GPUs of a job are idle while others of it are not: asked for more than the program takes."""

import numpy as np

from fleetwatch.diagnosis.cause import MINUTES, PART, Beside, Cause, Facts, Step
from fleetwatch.diagnosis.judgement.features import Features
from fleetwatch.diagnosis.judgement.rules import (
    HIGH,
    IDLE,
    OF_IDLE,
    Detector,
    Judged,
    at_least,
    below,
    judged,
    less_sure,
)

UNUSED_UTIL = 0.02  # maximum over the window: what monitoring itself draws
USED_UTIL = 0.20  # mean of the job's busiest GPU
GPUS = 2
GPUS_TOPIC = ("gpus",)


def find(f: Features) -> Judged:
    """The unused GPUs alone are affected."""
    signs = (
        at_least(f, "job_gpus", GPUS),
        below(f, "util_max", UNUSED_UTIL),
        at_least(f, "job_util_max", USED_UTIL),
    )
    return judged(signs, confidence=HIGH, recoverable=(0.9, 1.0))


def find_idle(f: Features) -> Judged:
    """What the ledger calls idle in a part of a job; less sure where nobody saw another GPU of it
    work.
    """
    signs = (
        at_least(f, "job_gpus", GPUS),
        at_least(f, "ledger_idle", IDLE),
        below(f, "job_ledger_idle_min", IDLE),
    )
    used = at_least(f, "job_util_max", USED_UTIL)
    return judged(
        signs, confidence=less_sure(HIGH, ~used.met), recoverable=(0.9, 1.0), strengthens=(used,)
    )


def fewer_gpus(facts: Facts) -> tuple[Step, ...]:
    """How many GPUs to ask for; nothing where they were not counted."""
    used = facts.gpus - facts.affected_gpus
    if used < 1:
        return ()
    text = f"Ask for {used} GPU{'s' * (used > 1)} instead of {facts.gpus}, or use them all."
    return (Step(text, request(facts, used), topics=GPUS_TOPIC),)


def request(facts: Facts, gpus: int) -> str:
    """The line that asks the job's scheduler for so many GPUs; "" for others."""
    if facts.place.scheduler == "kubernetes":
        return f"resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}"
    if facts.place.scheduler != "slurm":
        return ""
    # --gres counts on each node, --gpus over all of them
    is_of_one_node = facts.gpus == facts.gpus_on_node
    return f"#SBATCH --gres=gpu:{gpus}" if is_of_one_node else f"#SBATCH --gpus={gpus}"


CAUSE = Cause(
    code="partial_idle",
    title="Some of its GPUs never used",
    sentence="The job asked for more GPUs than its program uses.",
    looks="At least one GPU shows nothing at all while another one of the job works.",
    sensors="utilisation of all the job's GPUs",
    fixes=(
        Step(
            "Ask for as many GPUs as the program uses, or use them all.",
            topics=GPUS_TOPIC,
        ),
        Step(
            "Start one process per GPU.", 'torchrun --nproc_per_node="$SLURM_GPUS_ON_NODE" train.py'
        ),
        Step(
            "Replace DataParallel by DistributedDataParallel; look whether CUDA_VISIBLE_DEVICES"
            " hides GPUs.",
            'echo "$CUDA_VISIBLE_DEVICES"',
        ),
    ),
    effort=MINUTES,
    range_words="the unused GPUs are free for others at once",
    alike="A pipeline whose later stages did not start yet looks the same for its first minutes.",
    tell=(
        Step(
            "Which process is on which GPU?",
            "nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name --format=csv",
        ),
    ),
    detectors=(
        Detector(find_idle, (1,), holds_of_shared=True, turn=OF_IDLE),
        Detector(find, holds_of_shared=True, turn=OF_IDLE),
    ),
    idle=PART,
    steps=fewer_gpus,
    needs_numbers=True,
    beside=Beside("util", np.nanmax, ("util_mean",)),
)
