"""Ranks spin: busy by their utilisation, near idle by their power, waiting for another rank."""

from collections.abc import Sequence

import numpy as np

from fleetwatch.diagnosis.cause import FASTER, HOURS, NSYS, PY_SPY, Cause, Step
from fleetwatch.diagnosis.judgement.features import Features
from fleetwatch.diagnosis.judgement.rules import (
    MEDIUM,
    Detector,
    Judged,
    Sign,
    all_met,
    any_contradicts,
    at_least,
    below,
    contradicts,
    judged,
    less_sure,
)
from fleetwatch.ledger.judgement.observations import Mask

GPUS = 2
UTIL = 0.85
SPIN = 0.30  # share of time
POWER = 0.35  # power ratio, as a mean, where what they spin is not measured
# Of readings below full utilisation nobody says that they spin. A mean so near idle is what a
# resident context draws by itself (26 to 50 W on boards of 400 to 700 W): whatever is resident does
# nothing, all the time. Nor does what neither computes nor moves data.
NEAR_IDLE = 0.12
TENSOR = 0.005
DRAM = 0.02
SM = 0.30  # a kernel that polls occupies a few of them


def find(f: Features) -> Judged:
    """What neither a hang, nor one slow rank, nor a checkpoint's rhythm explains."""
    common = (at_least(f, "job_gpus", GPUS), at_least(f, "util", UTIL))
    spins = at_least(f, "spin", SPIN)
    draws_little = below(f, "pr", POWER)
    rests = below(f, "pr", NEAR_IDLE)
    still = (below(f, "ten", TENSOR), below(f, "dram", DRAM))
    is_near = rests.met | _may_rest(f, still)
    is_resting = draws_little.met & ~any_contradicts(still) & is_near
    waits = np.fmax(f["spin"], is_resting)
    return judged(
        (*common, spins),
        confidence=less_sure(MEDIUM, ~f.has("ten", "dram")),
        hits=all_met(common) & (spins.met | is_resting),
        recoverable=(0.3 * waits, 0.9 * waits),
        strengthens=(draws_little, rests, *still),
    )


def _may_rest(f: Features, still: Sequence[Sign]) -> Mask:
    """Where it neither computes nor moves data, and nobody saw its units occupied."""
    return all_met(still) & ~contradicts(below(f, "sm", SM))


CAUSE = Cause(
    code="rank_wait",
    title="Ranks wait for each other",
    sentence=(
        "The GPUs show 100 % but draw little power: ranks spin in NCCL and wait for another rank."
    ),
    looks="High utilisation with power near idle for much of the time, on a job of several GPUs.",
    sensors="utilisation and power of all the job's GPUs",
    fixes=(
        Step("Find the rank that the others wait for: it alone draws power at these times."),
        Step("Look for work that one rank does alone: saving, logging, evaluation, uneven data."),
        Step(
            "Ask NCCL what it waits for.",
            "export NCCL_DEBUG=INFO TORCH_NCCL_TRACE_BUFFER_SIZE=2000",
        ),
    ),
    effort=HOURS,
    range_words=FASTER,
    alike=(
        "A slow rank, a checkpoint without a rhythm, pipeline bubbles and slow links all end in"
        " this wait."
    ),
    tell=(
        Step("Where does each rank stand?", PY_SPY),
        Step("Which collective is long, and on which rank short?", NSYS),
    ),
    detectors=(Detector(find),),
)
