"""When GPUs were slowed by heat or power, and what that wasted of them, five minutes by five
minutes: incidents, findings and charts of it say the same by them.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from fleetwatch.diagnosis.causes import BLIND, SLOWED
from fleetwatch.diagnosis.models import WASTED_MS, CauseEntry
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger.judgement.cell_states import CELL_MS, CELLS_PER_HOUR
from fleetwatch.lib.intervals import HOUR_MS, MINUTE_MS, floor_hour, floor_hour_ms, from_ms, to_ms
from fleetwatch.lib.spans import Span, union

# diagnosis looks every five minutes, at whole five minutes: what nobody saw for so long is over
STILL_MS = 20 * MINUTE_MS
SETTLED_MS = 3 * MINUTE_MS  # so long after five minutes diagnosis has seen all of them

# [start_ms, end_ms) of five minutes, and the milliseconds of the GPU that they wasted
Part = tuple[int, int, int]


def slowed_parts(
    gpu_ids: Collection[int], start_ms: int, end_ms: int
) -> Mapping[int, Sequence[Part]]:
    """By GPU's id its five minutes that touch [start_ms, end_ms), in order of time; of two jobs on
    one GPU each has its own.
    """
    rows = CauseEntry.objects.filter(
        gpu__in=gpu_ids,
        cause=SLOWED,
        start__gte=floor_hour(from_ms(start_ms)),
        start__lt=from_ms(end_ms),
    ).annotate(wasted_ms=WASTED_MS)
    parts: dict[int, list[Part]] = defaultdict(list)
    for gpu_id, start, cells, wasted_ms in rows.values_list(
        "gpu_id", "start", "cells", "wasted_ms"
    ):
        every = spread(to_ms(start), cells, wasted_ms)
        parts[gpu_id] += [part for part in every if part[1] > start_ms and part[0] < end_ms]
    return {gpu_id: sorted(own) for gpu_id, own in parts.items()}


def begun_ms(start_ms: int, cells: int) -> int:
    """When the first five minutes of an hour began that these cells mark; its start where none."""
    return spread(start_ms, cells, 0)[0][0] if cells else start_ms


def ended_ms(start_ms: int, cells: int) -> int:
    """When the last five minutes of an hour ended that these cells mark; its end where none."""
    return spread(start_ms, cells, 0)[-1][1] if cells else floor_hour_ms(start_ms) + HOUR_MS


def spread(cut_ms: int, cells: int, wasted_ms: int) -> list[Part]:
    """An hour's waste over its five minutes with these bits, as evenly as whole milliseconds are;
    the last one has what is left.
    """
    hour_ms = floor_hour_ms(cut_ms)
    starts = [hour_ms + bit * CELL_MS for bit in range(CELLS_PER_HOUR) if cells >> bit & 1]
    if not starts:
        return []
    each_ms, left_ms = divmod(wasted_ms, len(starts))
    own_ms = [each_ms] * (len(starts) - 1) + [each_ms + left_ms]
    return [(at, at + CELL_MS, ms) for at, ms in zip(starts, own_ms, strict=True)]


def slowed_spans(gpu_id: int, start_ms: int, end_ms: int) -> list[Span]:
    """When the GPU was slowed in [start_ms, end_ms), neighbours as one."""
    own = slowed_parts([gpu_id], start_ms, end_ms).get(gpu_id, ())
    return union((first_ms, last_ms) for first_ms, last_ms, _ in own)


def otherwise_until(newest_ms: Mapping[int, int]) -> Mapping[int, int]:
    """By GPU's id, of GPUs with the moment of what is newest of each, when the last five minutes
    ended of which diagnosis saw something else than that it was slowed; as far as it goes on still
    by the time alone, and not of those that may have been seen in part.
    """
    if not newest_ms:
        return {}
    rows = CauseEntry.objects.filter(
        gpu__in=newest_ms,
        node__in=GPU.objects.filter(pk__in=newest_ms).values("node"),
        start__gte=floor_hour(from_ms(min(newest_ms.values()) - STILL_MS)),
        start__lt=from_ms(max(newest_ms.values())),
    ).exclude(cause__in=(SLOWED, *BLIND))
    ends: dict[int, int] = {}
    for gpu_id, start, cells in rows.values_list("gpu_id", "start", "cells"):
        for _, end_ms, _ in spread(to_ms(start), cells, 0):
            if end_ms <= newest_ms[gpu_id] - SETTLED_MS:
                ends[gpu_id] = max(end_ms, ends.get(gpu_id, end_ms))
    return ends


def goes_on(end_ms: int, otherwise_ms: int | None, newest_ms: int) -> bool:
    """Whether what slowed a GPU until then does so still: nothing else was seen of it since, and
    that was lately.
    """
    is_otherwise = otherwise_ms is not None and otherwise_ms > end_ms
    return end_ms >= newest_ms - STILL_MS and not is_otherwise
