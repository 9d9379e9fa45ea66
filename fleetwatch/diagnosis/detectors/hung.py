"""Stuck: every rank shows a busy kernel, draws next to nothing and moves no data, for ten minutes and more."""

import numpy as np

from fleetwatch.diagnosis.features import Features, Mask
from fleetwatch.diagnosis.rules import HIGH, MEDIUM, Detector, Found, all_met, at_least, below, contradicts, found, less_sure

MIB = 1024 * 1024
TEN_MINUTES = 2  # cells; PyTorch's NCCL watchdog gives up after ten minutes by default
BUSY = 0.95  # fifth percentile of utilisation
POWER = 0.25  # maximum of the power ratio
LINK = 50 * MIB  # bytes/s
TENSOR, DRAM = 0.005, 0.02
MOST = 0.5  # of the cell in which it begins


def find(f: Features) -> Found:
    """Without GPM less sure; without the ranks' power not known at all."""
    signs = (at_least(f, "p5", BUSY), below(f, "pr_max", POWER), at_least(f, "job_p5_min", BUSY), below(f, "job_pr_max_max", POWER))
    beside = (below(f, "nvl", LINK), below(f, "rx", LINK), below(f, "ten", TENSOR), below(f, "dram", DRAM))
    hits = all_met(signs) & ~np.logical_or.reduce([contradicts(sign) for sign in beside])
    confidence = less_sure(HIGH, ~f.has("ten", "dram"), f["job_gpus"] < 2)
    return found(
        hits,
        confidence=np.where(_is_serving(f), np.minimum(confidence, MEDIUM), confidence),
        low=1.0,
        high=1.0,
        signs=signs,
        strengthens=beside,
    )


def begins(f: Features) -> Mask:
    """A cell that every rank spins through for most of the time: before, they worked, so that its highest power is that of work."""
    return at_least(f, "job_spin_min", MOST).met


def _is_serving(f: Features) -> np.ndarray:
    """An inference engine may keep a polling kernel."""
    return np.broadcast_to(f.lanes.is_serving[:, None], f.lanes.held.shape)


DETECTOR = Detector("hung", (TEN_MINUTES,), find, begins=begins)
