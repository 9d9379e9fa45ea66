"""Busy in full precision: the units that make this GPU dear stand still."""

from fleetwatch.diagnosis.features import SHORT, Features
from fleetwatch.diagnosis.rules import (
    HIGH,
    Detector,
    Found,
    all_met,
    at_least,
    below,
    contradicts,
    found,
    less_sure,
)

UTIL, SM = 0.85, 0.50
TENSOR, FP32 = 0.03, 0.20
FP64 = 0.20  # from here on it is double precision work, for which tensor cores are no answer
LOW_FACTOR, HIGH_FACTOR = 1.3, 3.0  # how much faster mixed precision was seen to make such work


def find(f: Features) -> Found:
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
    return found(
        all_met(signs) & ~contradicts(double), confidence=less_sure(HIGH, ~f.has("fp64")),
        low=1 - 1 / LOW_FACTOR, high=1 - 1 / HIGH_FACTOR, signs=signs, strengthens=(double,),
    )  # fmt: skip


DETECTOR = Detector("no_tensor_cores", (SHORT,), find)
