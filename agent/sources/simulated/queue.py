"""What the simulated cluster's queue waits for: a function of the cluster and the time alone, the
same on every node.
"""

import random
from functools import lru_cache
from typing import List, Tuple

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
CHANCE = 0.6  # of a day: a morning on which many submit at once, to a partition that is full
BEGINS_H, LASTS_H = (6.0, 12.0), (3.0, 9.0)
GPUS = (4, 40)  # that jobs wait for at the queue's longest
STEP_MS = 300_000  # the agent counts the queue as often


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


def waits_between(cluster: str, start_ms: int, end_ms: int) -> List[Tuple[int, int]]:
    """Spans [start, end) within the given one in which jobs wait."""
    days = (_wave(cluster, day) for day in range(start_ms // DAY_MS, (end_ms - 1) // DAY_MS + 1))
    spans = ((max(begin_ms, start_ms), min(end, end_ms)) for begin_ms, end, _ in days)
    return [span for span in spans if span[0] < span[1]]


@lru_cache(maxsize=64)
def _wave(cluster: str, day: int) -> Tuple[int, int, int]:
    rng = random.Random("%s/queue/%d" % (cluster, day))
    if rng.random() >= CHANCE:
        return 0, 0, 0
    first, count = (int(rng.uniform(*hours) * HOUR_MS) // STEP_MS for hours in (BEGINS_H, LASTS_H))
    begin_ms = day * DAY_MS + first * STEP_MS
    return begin_ms, begin_ms + count * STEP_MS, rng.randint(*GPUS)
