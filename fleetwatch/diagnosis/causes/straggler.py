"""One rank is slower than the others, which wait for it in every step.

Why it is slower (its link's generation and width, other work on its host) is not read.
"""

import numpy as np

from fleetwatch.diagnosis.cause import FASTER, HOURS, NSYS, Beside, Cause, Facts, Step
from fleetwatch.diagnosis.judgement.features import Features
from fleetwatch.diagnosis.judgement.rules import (
    MEDIUM,
    Detector,
    Judged,
    Sign,
    all_met,
    any_met,
    at_least,
    judged,
)
from fleetwatch.diagnosis.shell import word
from fleetwatch.ledger.judgement.observations import Floats, Ints

GPUS = 2
UTIL = 0.60  # of every rank: they are all at work
CLOCK = 0.90  # of the job's median
MADS = 3.0  # median absolute deviations from the job's median
POINTS = 0.15  # and at least so much
COMPARED = ("ten", "pr_max")
RANKS_FOR_MAD = 4  # with fewer ranks the deviation of the deviant decides its own median
# correlation with the job's other GPUs: of the one, downwards, while most ranks move together
INVERTED = 0.5
TOGETHER = 0.5


def find(f: Features) -> Judged:
    """All of the job is affected: the waiting ranks and the one that they wait for.

    What is lost is what a step of the median rank takes less than the slow one's: by the clocks,
    and by the time for which the median rank spins and the slow one does not; the two where both
    are read are the range.
    """
    signs = (at_least(f, "job_gpus", GPUS), at_least(f, "job_util_min", UTIL))
    slow_clock = f["job_clk_min"] / f["job_clk_median"]
    evidence = (
        Sign("rank_clock", slow_clock, CLOCK, is_lower_bound=False),
        *(
            Sign(f"rank_{name}", _largest_deviation(f, name), POINTS, is_lower_bound=True)
            for name in COMPARED
        ),
    )
    inverted = (
        Sign("job_corr_min", f["job_corr_min"], -INVERTED, is_lower_bound=False),
        at_least(f, "job_corr_median", TOGETHER),
    )
    return judged(
        signs,
        confidence=MEDIUM,
        hits=all_met(signs) & (any_met(evidence) | all_met(inverted)),
        recoverable=_lost(f, slow_clock),
        strengthens=(*evidence, *inverted),
    )


def _lost(f: Features, slow_clock: Floats) -> tuple[Floats, Floats]:
    by_clock = np.maximum(1.0 - slow_clock, 0.0)
    by_wait = np.maximum(f["job_spin_median"] - f["job_spin_min"], 0.0)
    return np.fmin(by_clock, by_wait), np.fmax(by_clock, by_wait)


def _largest_deviation(f: Features, name: str) -> np.ndarray:
    """How far the rank that is farthest from the job's median lies from it; 0 where that is within
    the ranks' own spread.
    """
    median = f[f"job_{name}_median"]
    farthest = np.fmax(f[f"job_{name}_max"] - median, median - f[f"job_{name}_min"])
    is_far = (f["job_gpus"] >= RANKS_FOR_MAD) & (farthest > MADS * f[f"job_{name}_mad"])
    return np.where(np.isnan(farthest), np.nan, np.where(is_far, farthest, 0.0))


def slow_rank(f: Features, rows: Ints, cell: int) -> int:
    """Of a job's rows, all held at that cell, the one that the others wait for, by the first sign
    that is met (none: the first row).
    """

    def read(name: str) -> Floats:
        return np.asarray(f[name][rows, cell])

    if (read("job_clk_min") / read("job_clk_median"))[0] < CLOCK:
        return int(rows[np.nanargmin(read("clk"))])
    for name in COMPARED:
        if _largest_deviation(f, name)[rows[0], cell] >= POINTS:
            return int(rows[np.nanargmax(np.abs(read(name) - read(f"job_{name}_median")))])
    is_inverted = read("job_corr_min")[0] < -INVERTED
    return int(rows[np.nanargmin(read("corr")) if is_inverted else 0])


def other_node(facts: Facts) -> tuple[Step, ...]:
    """Where the slow one is, and how to run without it."""
    node = facts.place.node
    if not node:
        return ()
    slow = f"GPU {facts.indexes[0]} of {node}" if facts.indexes else f"a GPU of {node}"
    is_slurm = facts.place.scheduler == "slurm"
    without = f"sbatch --exclude={word(node)} job.sh" if is_slurm else ""
    return (Step(f"The slow one is {slow}.", without),)


CAUSE = Cause(
    code="straggler",
    title="One slow rank",
    sentence="One GPU of the job is slower than the others, and in every step they wait for it.",
    looks=(
        "One rank's clock, power or tensor activity lies far from the median of its peers while all"
        " are busy."
    ),
    sensors="clocks, power or tensor activity of all the job's GPUs",
    fixes=(
        Step(
            "Run it without the slow GPU's node: if the pace returns, take that node out of"
            " service."
        ),
        Step(
            "Compare the slow GPU's clock, temperature and PCIe link with its neighbours'.",
            "nvidia-smi --query-gpu=index,clocks.sm,temperature.gpu"
            ",pcie.link.gen.current,pcie.link.width.current --format=csv",
        ),
        Step("Even out the work: bucket or pack sequences by length, shard data evenly."),
    ),
    effort=HOURS,
    range_words=FASTER,
    alike=(
        "Waiting for communication and pipeline bubbles spin at 100 % too; only a rank that"
        " deviates makes a straggler."
    ),
    tell=(Step("Time each rank's step without its collectives.", NSYS),),
    detectors=(Detector(find),),
    steps=other_node,
    needs_numbers=True,
    curves=("util_mean", "power_w", "tensor_active", "sm_clock_hz"),
    beside=Beside("pr_max", np.nanmedian, ("sm_clock_hz", "power_w")),
    pick=slow_rank,
)
