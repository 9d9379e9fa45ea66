"""Working well, as far as the sensors tell; `busy` where they do not tell how well."""

from fleetwatch.diagnosis.features import SHORT, Features
from fleetwatch.diagnosis.rules import HIGH, MEDIUM, Detector, Found, at_least, below, found

UTIL = 0.85
TENSOR = 0.15  # 30 to 45 % is excellent
POWER = 0.65  # power ratio
FP64 = 0.20  # double precision work
# shorter steps than the driver samples read as a lower utilisation: then by what the units do
# without a pause
SM, PAUSES, SOME_POWER = 0.60, 0.05, 0.45


def find(f: Features) -> Found:
    """Only where the profiling counters are read: without them nothing is called healthy."""
    busy, full, steady = at_least(f, "util", UTIL), at_least(f, "sm", SM), below(f, "lo", PAUSES)
    tensor, double = at_least(f, "ten", TENSOR), at_least(f, "fp64", FP64)
    power = at_least(f, "pr", POWER)
    hits = f.has("ten") & (
        busy.met & (tensor.met | double.met | power.met) | (full.met & steady.met & tensor.met)
    )
    return found(
        hits,
        confidence=HIGH,
        low=0.0,
        high=0.0,
        signs=(busy,),
        strengthens=(tensor, double, power, full, steady),
    )


def find_busy(f: Features) -> Found:
    """Busy, with an efficiency that nobody can measure on this GPU."""
    busy, steady, power = (
        at_least(f, "util", UTIL),
        below(f, "lo", PAUSES),
        at_least(f, "pr", SOME_POWER),
    )
    hits = (busy.met | (steady.met & power.met)) & ~f.has("ten")
    return found(
        hits, confidence=MEDIUM, low=0.0, high=0.0, signs=(busy,), strengthens=(steady, power)
    )


DETECTOR = Detector("healthy", (SHORT,), find)
BUSY = Detector("busy", (SHORT,), find_busy)
