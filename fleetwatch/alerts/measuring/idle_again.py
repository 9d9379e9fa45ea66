"""When jobs whose GPUs rest again, not idle yet, are idle again if they go on resting."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter

import numpy as np

from fleetwatch.alerts.breach import Watch
from fleetwatch.alerts.measuring.job_lanes import Parts
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.policy import CONDITIONS
from fleetwatch.ledger.selectors import current_policy

IDLE_ALREADY_MS = 0
NEVER_MS = 2**62  # after every moment

Part = tuple[int, int, int, int, int, int]  # job, GPU, start, end, condition, whether it is idle


def idle_again(parts: Parts, watch: Watch, needed: int | None) -> dict[str, int]:
    """By job that fires when so many of its GPUs are idle (None: all). Not there: what works, and
    what is idle.
    """
    resting = _resting(parts) if watch.firing else {}
    if not resting:
        return {}
    policy = current_policy()[1]
    again: dict[str, int] = {}
    jobs = Job.objects.filter(pk__in=resting, key__in=watch.firing)
    for job_id, key, kind in jobs.values_list("pk", "key", "kind"):
        at_ms = sorted(
            since_ms + policy.idle_ms(kind) if 0 < since_ms < NEVER_MS else since_ms
            for since_ms in resting[job_id]
        )
        last_ms = at_ms[min(needed or len(at_ms), len(at_ms)) - 1]
        if 0 < last_ms < NEVER_MS:
            again[key] = last_ms
    return again


def _resting(parts: Parts) -> dict[int, list[int]]:
    """By job of which a GPU rests and is not idle yet, of each GPU since when."""
    since_ms: dict[int, list[int]] = defaultdict(list)
    for (job_id, _), lane in groupby(_rows(parts), key=itemgetter(0, 1)):
        since_ms[job_id].append(_rests_since(list(lane)))
    return {
        job_id: every
        for job_id, every in since_ms.items()
        if any(IDLE_ALREADY_MS < each < NEVER_MS for each in every)
    }


def _rows(parts: Parts) -> Iterator[Part]:
    """In order of jobs, GPUs and time."""
    order = np.lexsort((parts.start_ms, parts.gpu_id, parts.job_id))
    columns: Iterable[np.ndarray] = (
        parts.job_id, parts.gpu_id, parts.start_ms, parts.end_ms, parts.condition, parts.is_idle
    )  # fmt: skip
    return zip(*(column[order].tolist() for column in columns), strict=True)


def _rests_since(lane: Sequence[Part]) -> int:
    """When the GPU's quiet run began that goes on; 0 of one that is idle, NEVER_MS of one that
    works.
    """
    quiet = CONDITIONS.index("quiet")
    _, _, since_ms, _, condition, is_idle = lane[-1]
    if condition != quiet:
        return NEVER_MS
    if is_idle:
        return IDLE_ALREADY_MS
    for _, _, start_ms, end_ms, condition, is_idle in reversed(lane[:-1]):
        if condition != quiet or is_idle or end_ms != since_ms:
            break
        since_ms = start_ms
    return since_ms
