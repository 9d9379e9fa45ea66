"""The GPU waits for its input: short regular pauses, or a loader that takes all the job's cores."""

import numpy as np

from fleetwatch.diagnosis.features import SHORT, Features
from fleetwatch.diagnosis.rules import (
    HIGH,
    MEDIUM,
    Detector,
    Found,
    all_met,
    at_least,
    below,
    found,
    less_sure,
)

UTIL = 0.85
USED = 0.02  # below it is idle
PAUSES = 0.10
CYCLE_S = 60.0
VARIATION = 0.6
DIPS = 2.0  # per minute
CORES = 0.85  # of the job's cores in use
LONG_PAUSES = 0.25  # share of time; more is something else than a loop that waits for input
READS = 0.2  # share of time in which something waits for the disk
ONE_THREAD = 0.95


def find(f: Features) -> Found:
    """By the rhythm of the pauses, which needs the driver's samples, or by the job's cores, which
    needs the host's.
    """
    busy = below(f, "util", UTIL)
    rhythm = (
        at_least(f, "lo", PAUSES),
        below(f, "cyc_s", CYCLE_S),
        at_least(f, "dips_per_min", DIPS),
    )
    # a cycle too long for several in one window has no variation of its own: then that of windows
    # among each other
    even, even_windows = below(f, "cyc_cv", VARIATION), below(f, "dips_cv", VARIATION)
    is_even = even.met | (np.isnan(even.values) & even_windows.met)
    cores, calm = at_least(f, "cpu", CORES), below(f, "long_frac", LONG_PAUSES)
    # of a service even pauses are waiting for requests: then only its full cores say that it waits
    # for its input
    hits = busy.met & ((all_met(rhythm) & is_even & ~f.lanes.serves) | (cores.met & calm.met))
    reasons = (cores, at_least(f, "iop", READS), at_least(f, "main1", ONE_THREAD))
    # where nobody read what is copied to the GPU, the pauses may as well be copies
    confidence = np.where(
        np.logical_or.reduce([sign.met for sign in reasons]), HIGH, less_sure(MEDIUM, ~f.has("rx"))
    )
    # without the driver's samples nobody sees a rhythm, without the host's facts nobody sees its
    # cores
    is_unknown = (
        busy.met & at_least(f, "util", USED).met & ~f.lanes.serves & ~(f.has("lo") & f.has("cpu"))
    )
    waits = np.fmax(f["lo"], 1.0 - f["util"])  # pauses shorter than a sample read as a lower mean
    return found(
        hits,
        confidence=confidence,
        low=0.4 * waits,
        high=0.9 * waits,
        signs=(busy, *rhythm),
        strengthens=(even, even_windows, *reasons, calm),
        possible=is_unknown,
    )


DETECTOR = Detector("data_starved", (SHORT,), find)
