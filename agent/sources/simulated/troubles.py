"""What goes wrong on purpose: a GPU that dies and comes back, an agent that reads nothing, jobs
that wait while GPUs are free. Functions of the specification and the time alone.
"""

import random
from functools import lru_cache
from typing import List, Optional, Tuple

from agent.readings import Event
from agent.sources.simulated.spec import Spec

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
FAULT_CYCLE_MS = 9 * 24 * HOUR_MS
FAULT_MS = 40 * HOUR_MS
ECC_EVERY_MS = 45 * 60_000  # an uncorrected error, in the hours before
# What the driver says before it: (how long before, XID, its text).
OMENS = (
    (6 * HOUR_MS, 63, "Row remapping event: an uncorrectable error was remapped"),
    (90 * 60_000, 94, "Contained ECC error"),
    (40 * 60_000, 63, "Row remapping event: an uncorrectable error was remapped"),
)
OMENS_MS = OMENS[0][0]
# of a node and day; an agent that does not read
OUTAGE_CHANCE = 0.2
OUTAGE_S = (180, 2400)
# Of a day: a morning on which many submit at once, to a partition that is full.
WAVE_CHANCE = 0.6
WAVE_BEGINS_H = (6.0, 12.0)
WAVE_LASTS_H = (3.0, 9.0)
PENDING_GPUS = (4, 40)  # that jobs wait for at the queue's longest
STEP_MS = 300_000  # the agent counts the queue as often

Spans = List[Tuple[int, int]]  # [start_ms, end_ms)


def faults_between(spec: Spec, start_ms: int, end_ms: int) -> Spans:
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
    events = []
    for lost_ms, back_ms in faults_between(spec, start_ms - FAULT_MS, end_ms + OMENS_MS):
        events += [
            Event(lost_ms - before_ms, "xid", uuid, code, text) for before_ms, code, text in OMENS
        ]
        events += [
            Event(lost_ms, "xid", uuid, 79, "GPU has fallen off the bus"),
            Event(lost_ms, "gpu_lost", uuid, None, "GPU is lost"),
            Event(back_ms, "gpu_ok", uuid, None, "GPU answers again"),
        ]
    return [event for event in events if start_ms <= event.at_ms < end_ms]


def ecc_errors(spec: Spec, at_ms: int) -> int:
    """Uncorrected memory errors of the faulty GPU since its driver was loaded: it is loaded anew
    after each fault.
    """
    ahead = faults_between(spec, at_ms, at_ms + OMENS_MS + 1)
    return max(0, (at_ms - (ahead[0][0] - OMENS_MS)) // ECC_EVERY_MS + 1) if ahead else 0


def outages_between(spec: Spec, start_ms: int, end_ms: int) -> Spans:
    """Spans [start, end) that touch the given one in which the node's agent reads nothing."""
    if not spec.outages:
        return []
    days = (
        _outage(spec.seed, day)
        for day in range((start_ms - DAY_MS) // DAY_MS, end_ms // DAY_MS + 1)
    )
    return [span for span in days if span is not None and span[0] < end_ms and span[1] > start_ms]


@lru_cache(maxsize=64)
def _outage(seed: int, day: int) -> Optional[Tuple[int, int]]:
    rng = random.Random("%d/outage/%d" % (seed, day))
    if rng.random() >= OUTAGE_CHANCE:
        return None
    begin_ms = day * DAY_MS + rng.randrange(DAY_MS)
    return begin_ms, begin_ms + int(rng.uniform(*OUTAGE_S)) * 1000


def pending_gpus(cluster: str, at_ms: int) -> int:
    """GPUs that jobs wait for at that time, at most STEP_MS old: it grows to the middle of the
    day's wave and shrinks again.
    """
    at_ms = at_ms // STEP_MS * STEP_MS
    begin_ms, end_ms, most = _wave(cluster, at_ms // DAY_MS)
    if not begin_ms <= at_ms < end_ms:
        return 0
    part = (at_ms - begin_ms) / (end_ms - begin_ms)
    return max(1, round(most * 4 * part * (1 - part)))


def waits_between(cluster: str, start_ms: int, end_ms: int) -> Spans:
    """Spans [start, end) within the given one in which jobs wait."""
    days = (_wave(cluster, day) for day in range(start_ms // DAY_MS, (end_ms - 1) // DAY_MS + 1))
    spans = ((max(begin_ms, start_ms), min(end, end_ms)) for begin_ms, end, _ in days)
    return [span for span in spans if span[0] < span[1]]


@lru_cache(maxsize=64)
def _wave(cluster: str, day: int) -> Tuple[int, int, int]:
    rng = random.Random("%s/queue/%d" % (cluster, day))
    if rng.random() >= WAVE_CHANCE:
        return 0, 0, 0
    first, count = (
        int(rng.uniform(*hours) * HOUR_MS) // STEP_MS for hours in (WAVE_BEGINS_H, WAVE_LASTS_H)
    )
    begin_ms = day * DAY_MS + first * STEP_MS
    return begin_ms, begin_ms + count * STEP_MS, rng.randint(*PENDING_GPUS)
