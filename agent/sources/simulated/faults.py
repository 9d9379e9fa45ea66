"""How the faulty GPU of a simulated node dies and comes back: memory errors for hours, then it
falls off the bus.
"""

import random
from typing import List, Tuple

from agent.readings import Event
from agent.sources.simulated.spec import Spec

HOUR_MS = 3_600_000
FAULT_CYCLE_MS, FAULT_MS = 9 * 24 * HOUR_MS, 40 * HOUR_MS
ECC_EVERY_MS = 45 * 60_000  # an uncorrected error, in the hours before
# What the driver says before it: (how long before, XID, its text).
OMENS = (
    (6 * HOUR_MS, 63, "Row remapping event: an uncorrectable error was remapped"),
    (90 * 60_000, 94, "Contained ECC error"),
    (40 * 60_000, 63, "Row remapping event: an uncorrectable error was remapped"),
)
OMENS_MS = OMENS[0][0]


def faults_between(spec: Spec, start_ms: int, end_ms: int) -> List[Tuple[int, int]]:
    """Spans [start, end) that touch the given one in which the faulty GPU is lost."""
    if spec.faulty is None:
        return []
    offset = random.Random("%d/fault" % spec.seed).randrange(FAULT_CYCLE_MS // 60_000) * 60_000
    first = (start_ms + offset - FAULT_MS) // FAULT_CYCLE_MS
    last = (end_ms + offset) // FAULT_CYCLE_MS
    spans = [
        (cycle * FAULT_CYCLE_MS - offset, cycle * FAULT_CYCLE_MS - offset + FAULT_MS)
        for cycle in range(first, last + 1)
    ]
    return [span for span in spans if span[0] < end_ms and span[1] > start_ms]


def events_between(spec: Spec, uuid: str, start_ms: int, end_ms: int) -> List[Event]:
    """What the driver says of the faulty GPU in [start, end), in order; uuid is that GPU's."""
    told = []
    for lost_ms, back_ms in faults_between(spec, start_ms - FAULT_MS, end_ms + OMENS_MS):
        told += [
            Event(lost_ms - before_ms, "xid", uuid, code, text) for before_ms, code, text in OMENS
        ]
        told += [
            Event(lost_ms, "xid", uuid, 79, "GPU has fallen off the bus"),
            Event(lost_ms, "gpu_lost", uuid, None, "GPU is lost"),
            Event(back_ms, "gpu_ok", uuid, None, "GPU answers again"),
        ]
    return [event for event in told if start_ms <= event.at_ms < end_ms]


def ecc_errors(spec: Spec, at_ms: int) -> int:
    """Uncorrected memory errors of the faulty GPU since its driver was loaded: it is loaded anew
    after each fault.
    """
    ahead = faults_between(spec, at_ms, at_ms + OMENS_MS + 1)
    return max(0, (at_ms - (ahead[0][0] - OMENS_MS)) // ECC_EVERY_MS + 1) if ahead else 0
