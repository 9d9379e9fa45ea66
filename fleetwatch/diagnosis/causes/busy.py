"""Busy, with an efficiency that nobody can measure on this GPU."""

from fleetwatch.diagnosis.cause import ADMIN, MINUTES, WELL, Cause, Step
from fleetwatch.diagnosis.judgement.features import Features
from fleetwatch.diagnosis.judgement.rules import MEDIUM, Detector, Judged, at_least, below, judged

UTIL = 0.85
# shorter steps than the driver samples read as a lower utilisation: then by what it draws
PAUSES = 0.05
POWER = 0.45


def find(f: Features) -> Judged:
    """Only where the profiling counters are not read."""
    busy = at_least(f, "util", UTIL)
    steady = below(f, "lo", PAUSES)
    power = at_least(f, "pr", POWER)
    hits = (busy.met | (steady.met & power.met)) & ~f.has("ten")
    return judged((busy,), confidence=MEDIUM, hits=hits, strengthens=(steady, power))


CAUSE = Cause(
    code="busy",
    title="Busy, efficiency not measured",
    sentence=(
        "The GPU works nearly all the time, which counts as useful; how efficient that work is "
        "can't be measured on it."
    ),
    looks="Busy, without profiling counters.",
    sensors=(
        "utilisation and power; efficiency needs GPM (Hopper and newer) or DCGM's profiling fields"
    ),
    fixes=(
        Step(
            "Run dcgm-exporter with profiling fields beside the agent to see it.",
            "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE, gauge, tensor active",
        ),
    ),
    effort=MINUTES,
    range_words="nothing is promised",
    alike="Without these counters memory-bound, FP32 and healthy work are the same.",
    who=ADMIN,
    detectors=(Detector(find),),
    verdict=WELL,
    left_over="in busy jobs, of which no more was measured",
    is_unmeasured=True,
)
