"""Limited by memory bandwidth: near the roofline of what it does, often for good reason."""

import numpy as np

from fleetwatch.diagnosis.cause import DAYS, Cause, Step
from fleetwatch.diagnosis.judgement.array_tools import ratio
from fleetwatch.diagnosis.judgement.features import Features
from fleetwatch.diagnosis.judgement.rules import (
    HIGH,
    MEDIUM,
    Detector,
    Judged,
    Sign,
    all_met,
    at_least,
    below,
    contradicts,
    judged,
)

UTIL = 0.85
DRAM = 0.40
TENSOR = 0.15
FP64 = 0.20  # from here on double precision is the work
LEADS = 1.2  # how far DRAM lies on its way to what is reached in practice, by how far the SMs are
FULL_DRAM = 0.75
FULL_SM = 0.85
MUCH = 0.55  # whatever the SMs do
ROOFLINE = 0.75  # practical peak is about 80 %


def find(f: Features) -> Judged:
    """Known only where the profiling counters are read; above ROOFLINE nothing is promised."""
    leads = Sign(
        "dram_leads", ratio(f["dram"] / FULL_DRAM, f["sm"] / FULL_SM), LEADS, is_lower_bound=True
    )
    signs = (at_least(f, "util_lowest", UTIL), at_least(f, "dram", DRAM), below(f, "ten", TENSOR))
    double = below(f, "fp64", FP64)
    much = at_least(f, "dram", MUCH)
    is_at_roof = at_least(f, "dram", ROOFLINE)
    hits = all_met(signs) & ~contradicts(double) & (much.met | leads.met)
    return judged(
        signs,
        confidence=np.where(is_at_roof.met, HIGH, MEDIUM),
        hits=hits,
        recoverable=(0.0, np.where(is_at_roof.met, 0.1, 0.4)),
        strengthens=(much, leads, is_at_roof, double),
    )


CAUSE = Cause(
    code="memory_bound",
    title="Limited by memory bandwidth",
    sentence=(
        "The GPU moves data as fast as it can while its compute units wait: often inherent to the"
        " work."
    ),
    looks="DRAM busy, Tensor Cores not.",
    sensors="profiling counters (GPM on Hopper and newer, or DCGM)",
    fixes=(
        Step(
            "Training: fuse, so that intermediate results stay on the chip.",
            "model = torch.compile(model)\ntorch.nn.functional.scaled_dot_product_attention(q,"
            " k, v)",
        ),
        Step(
            "Decoding: larger or continuous batches, weights in FP8 or INT8, speculative decoding."
        ),
        Step(
            "Near the roofline nothing is left to gain: a GPU with less compute does the same"
            " for less."
        ),
    ),
    effort=DAYS,
    range_words="nothing may be recoverable: near the roofline this is healthy",
    alike="Whether it is inherent or can be mended is not visible from outside.",
    tell=(
        Step(
            "Which kernels are far from their roofline?",
            "ncu --set roofline --launch-count 50 python train.py",
        ),
    ),
    detectors=(Detector(find),),
)
