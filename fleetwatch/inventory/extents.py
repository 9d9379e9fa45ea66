"""From when to when a batch speaks, by GPU and as a whole, in corrected milliseconds. Pure."""

from dataclasses import dataclass

from agent.wire import Batch
from fleetwatch.lib.spans import Span, union


def windows_by_gpu(batch: Batch, *, offset_ms: int, since_ms: int = 0) -> dict[int, Span]:
    """Position in batch.gpus -> [start of its first window, end of its last), of the windows that start at `since_ms` or later."""
    length_ms = batch.window_s * 1000
    places, starts = batch.windows["gpu"], batch.windows["start_ms"]
    if starts and min(starts) + offset_ms < since_ms:
        kept = [(place, start_ms) for place, start_ms in zip(places, starts, strict=True) if start_ms + offset_ms >= since_ms]
        places, starts = [place for place, _ in kept], [start_ms for _, start_ms in kept]
    if starts != sorted(starts):
        starts, places = map(list, zip(*sorted(zip(starts, places, strict=True)), strict=True))
    first, last = dict(zip(reversed(places), reversed(starts), strict=True)), dict(zip(places, starts, strict=True))
    return {place: (first[place] + offset_ms, last[place] + length_ms + offset_ms) for place in last}


def newest_ms(batch: Batch, *, offset_ms: int) -> int | None:
    """The newest window end, host sample end or event; None when the batch holds none of them."""
    ends = [max(starts) + batch.window_s * 1000 for starts in _starts(batch)]
    ends += [event["at_ms"] for event in batch.events]
    return max(ends) + offset_ms if ends else None


def oldest_ms(batch: Batch, *, offset_ms: int) -> int | None:
    """The oldest window, host sample or event; None when the batch holds none of them."""
    begins = [min(starts) for starts in _starts(batch)]
    begins += [event["at_ms"] for event in batch.events]
    return min(begins) + offset_ms if begins else None


def _starts(batch: Batch) -> list[list[int]]:
    """The starts of the windows and of the host samples, where there are any."""
    return [starts for starts in (batch.windows["start_ms"], batch.host.get("start_ms")) if starts]


@dataclass(frozen=True, slots=True)
class Capacity:
    """When GPUs counted as capacity before a batch, and when after it, by GPU."""

    before: dict[int, Span]
    after: dict[int, Span]

    def grown(self) -> list[Span]:
        """The time in which some GPU's capacity changed."""
        changed: list[Span] = []
        for gpu_id in self.before.keys() | self.after.keys():
            changed += _symmetric_difference(self.before.get(gpu_id, (0, 0)), self.after.get(gpu_id, (0, 0)))
        return union(changed)


def _symmetric_difference(one: Span, other: Span) -> list[Span]:
    """What exactly one of the two spans holds."""
    if one[0] >= one[1] or other[0] >= other[1] or one[1] < other[0] or other[1] < one[0]:
        return [span for span in (one, other) if span[0] < span[1]]
    return [(min(one[0], other[0]), max(one[0], other[0])), (min(one[1], other[1]), max(one[1], other[1]))]
