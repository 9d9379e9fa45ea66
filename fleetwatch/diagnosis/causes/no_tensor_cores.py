"""Busy in full precision: the units that make this GPU dear stand still."""

from fleetwatch.diagnosis.cause import FASTER, HOURS, TORCH_PROFILER, Cause, Step
from fleetwatch.diagnosis.judgement.features import Features
from fleetwatch.diagnosis.judgement.rules import (
    HIGH,
    Detector,
    Judged,
    all_met,
    at_least,
    below,
    contradicts,
    judged,
    less_sure,
)

UTIL = 0.85
SM = 0.50
TENSOR = 0.03
FP32 = 0.20
FP64 = 0.20  # from here on it is double precision work, for which tensor cores are no answer
# how much faster mixed precision was seen to make such work
LOW_FACTOR = 1.3
HIGH_FACTOR = 3.0


def find(f: Features) -> Judged:
    """Known only where the profiling counters (GPM, DCGM) are read; less sure where nobody read
    double precision.
    """
    signs = (
        at_least(f, "util_lowest", UTIL),
        at_least(f, "sm", SM),
        below(f, "ten", TENSOR),
        at_least(f, "fp32", FP32),
    )
    double = below(f, "fp64", FP64)
    return judged(
        signs,
        confidence=less_sure(HIGH, ~f.has("fp64")),
        hits=all_met(signs) & ~contradicts(double),
        recoverable=(1 - 1 / LOW_FACTOR, 1 - 1 / HIGH_FACTOR),
        strengthens=(double,),
    )


CAUSE = Cause(
    code="no_tensor_cores",
    title="Full precision, Tensor Cores unused",
    sentence=(
        "The GPU is busy in 32 bit; the units that make it fast for deep learning stand still."
    ),
    looks="Busy, with FP32 active and tensor activity near 0.",
    sensors="profiling counters (GPM on Hopper and newer, or DCGM)",
    fixes=(
        Step(
            "Compute in BF16.",
            "with torch.autocast('cuda', dtype=torch.bfloat16):\n    loss = model(x)",
        ),
        Step("Let what stays in 32 bit use TF32.", "torch.set_float32_matmul_precision('high')"),
        Step("Keep matrix sizes multiples of 8, better of 64."),
    ),
    effort=HOURS,
    range_words=FASTER,
    alike="Work without matrix products can't use Tensor Cores at all.",
    tell=(Step("Which kernels take the time?", TORCH_PROFILER),),
    detectors=(Detector(find),),
)
