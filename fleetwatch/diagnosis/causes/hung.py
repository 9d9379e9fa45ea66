"""Stuck: every rank shows a busy kernel, draws next to nothing and moves no data, for ten minutes
and more.
"""

import numpy as np

from fleetwatch.diagnosis.cause import MINUTES, PY_SPY, Cause, Step
from fleetwatch.diagnosis.judgement.features import Features
from fleetwatch.diagnosis.judgement.rules import (
    HIGH,
    MEDIUM,
    Detector,
    Judged,
    Levels,
    Sign,
    all_met,
    any_contradicts,
    at_least,
    below,
    judged,
    less_sure,
)
from fleetwatch.diagnosis.shell import ending
from fleetwatch.ledger.judgement.observations import Mask

MIB = 1024 * 1024
TEN_MINUTES = 2  # cells; PyTorch's NCCL watchdog gives up after ten minutes by default
BUSY = 0.95  # fifth percentile of utilisation
POWER = 0.25  # maximum of the power ratio
POWER_IN_SILENCE = 0.30  # where the units were read and do nothing
LINK = 50 * MIB  # bytes/s
PCIE = 10 * MIB  # a small batch copies more than that
SM = 0.30  # a kernel that polls occupies a few
TENSOR = 0.005
DRAM = 0.02
MOST = 0.5  # of the cell in which it begins
# One rank may be apart (it crashed, or still works): then at least so many GPUs, that most of them
# are stuck.
GPUS_FOR_ONE_APART = 3
# ranks apart, below which there is none, or at most one
NONE_APART = 1.0
ONE_APART = 2.0


def find(f: Features) -> Judged:
    """Of the ranks that are stuck.

    Without GPM less sure, as with one rank apart; without a rank's power it says nothing of the
    rank.
    """
    busy = at_least(f, "p5", BUSY)
    rests = below(f, "pr_max", POWER)
    still = (below(f, "ten", TENSOR), below(f, "dram", DRAM))
    silent = (below(f, "pr_max", POWER_IN_SILENCE), below(f, "sm", SM), *still)
    is_stuck = busy.met & (rests.met | all_met(silent))
    none_apart, one_apart = _apart(f, f.has("p5", "pr_max"), is_stuck)
    beside = (below(f, "nvl", LINK), below(f, "rx", PCIE), *still)
    hits = is_stuck & one_apart.met & ~any_contradicts(beside)
    return judged(
        (busy, rests, one_apart),
        confidence=_sure(f, none_apart),
        hits=hits,
        recoverable=(1.0, 1.0),
        strengthens=(none_apart, *beside),
    )


def _sure(f: Features, none_apart: Sign) -> Levels:
    """An inference engine may keep a polling kernel."""
    sure = less_sure(HIGH, ~f.has("ten", "dram"), f["job_gpus"] < 2, ~none_apart.met)
    most = np.where(f.lanes.is_serving[:, None], MEDIUM, HIGH)
    return np.minimum(sure, most).astype(np.int8)


def begins(f: Features) -> Mask:
    """A cell that the ranks spin through for most of the time: before, they worked, so that its
    highest power is that of work.
    """
    spins = at_least(f, "spin", MOST).met
    return spins & _apart(f, f.has("spin"), spins)[1].met


def _apart(f: Features, is_read: Mask, is_stuck: Mask) -> tuple[Sign, Sign]:
    """That none, and that at most one of the job's ranks is read and not stuck; of few GPUs none
    may be.
    """
    apart = f.in_job(is_read & ~is_stuck)
    none = Sign("ranks_apart", apart, NONE_APART, is_lower_bound=False)
    counted = np.where(
        none.met | (f["job_gpus"] >= GPUS_FOR_ONE_APART), apart, np.fmax(apart, ONE_APART)
    )
    return none, Sign("ranks_apart", counted, ONE_APART, is_lower_bound=False)


CAUSE = Cause(
    code="hung",
    title="Stuck",
    sentence="Every rank spins in a kernel that never ends; nothing is computed and nothing moves.",
    looks=(
        "Utilisation at 100 % with power near idle and silent links, on all ranks or all but one,"
        " for ten minutes and more."
    ),
    sensors="utilisation samples and power; GPM makes it sure",
    fixes=(
        Step("End it and let it start again from its last checkpoint: steps since then are lost."),
        Step(
            "Let the next hang end itself and leave a trace.",
            "export TORCH_NCCL_ASYNC_ERROR_HANDLING=1 TORCH_NCCL_DUMP_ON_TIMEOUT=1"
            " TORCH_NCCL_TRACE_BUFFER_SIZE=2000 NCCL_DEBUG=WARN",
        ),
        Step(
            "Shorten the time after which it gives up.",
            "torch.distributed.init_process_group('nccl', timeout=timedelta(minutes=10))",
        ),
    ),
    effort=MINUTES,
    range_words="all of the hours since ten minutes after it began",
    alike=(
        "Ranks that wait for one very slow rank, and an inference engine that polls, look the"
        " same for a while."
    ),
    tell=(
        Step(
            "Where does each rank stand? Ranks in different places hang; all in the same place"
            " wait.",
            PY_SPY,
        ),
    ),
    detectors=(Detector(find, (TEN_MINUTES,), begins=begins, spared=TEN_MINUTES),),
    command=ending,
    is_ended=True,
)
