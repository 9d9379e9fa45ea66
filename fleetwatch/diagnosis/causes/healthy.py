"""Working well, as far as the sensors tell; `busy` is where they do not tell how well."""

from fleetwatch.diagnosis.cause import MINUTES, WELL, Cause
from fleetwatch.diagnosis.judgement.features import Features
from fleetwatch.diagnosis.judgement.rules import HIGH, Detector, Judged, at_least, below, judged

UTIL = 0.85
TENSOR = 0.15  # 30 to 45 % is excellent
POWER = 0.65  # power ratio
FP64 = 0.20  # double precision work
# shorter steps than the driver samples read as a lower utilisation: then by what the units do
# without a pause
SM = 0.60
PAUSES = 0.05


def find(f: Features) -> Judged:
    """Only where the profiling counters are read: without them nothing is called healthy."""
    busy = at_least(f, "util", UTIL)
    full = at_least(f, "sm", SM)
    steady = below(f, "lo", PAUSES)
    tensor = at_least(f, "ten", TENSOR)
    double = at_least(f, "fp64", FP64)
    power = at_least(f, "pr", POWER)
    hits = f.has("ten") & (
        busy.met & (tensor.met | double.met | power.met) | (full.met & steady.met & tensor.met)
    )
    return judged(
        (busy,), confidence=HIGH, hits=hits, strengthens=(tensor, double, power, full, steady)
    )


CAUSE = Cause(
    code="healthy",
    title="Nothing to change",
    sentence="The GPU does what it can, as far as its sensors tell.",
    looks="Busy with Tensor Cores, double precision or power to show for it.",
    sensors="profiling counters (GPM on Hopper and newer, or DCGM)",
    fixes=(),
    effort=MINUTES,
    range_words="nothing to do",
    alike="Whether the work was worth doing is not visible from outside.",
    detectors=(Detector(find),),
    verdict=WELL,
    left_over="in jobs that run well",
)
