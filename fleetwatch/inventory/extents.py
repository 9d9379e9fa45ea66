"""From when to when a batch speaks, by GPU and as a whole, in corrected milliseconds. Pure."""

from collections.abc import Iterator, Sequence

from agent.wire import Batch
from fleetwatch.inventory.stays import spans_of
from fleetwatch.lib.spans import Span, difference, union


def windows_by_gpu(batch: Batch, *, offset_ms: int, since_ms: int = 0) -> dict[int, list[Span]]:
    """Position in batch.gpus -> the time of its windows, parted where none is for ten minutes; only
    windows from `since_ms` on.
    """
    starts: dict[int, list[int]] = {}
    for place, start_ms in zip(batch.windows["gpu"], batch.windows["start_ms"], strict=True):
        if start_ms + offset_ms >= since_ms:
            starts.setdefault(place, []).append(start_ms + offset_ms)
    return {place: spans_of(times, batch.window_s * 1000) for place, times in starts.items()}


def newest_ms(batch: Batch, *, offset_ms: int) -> int | None:
    """The newest window end, host sample end or event; None when the batch holds none of them."""
    return max((end + offset_ms for _, end in _extents(batch)), default=None)


def oldest_ms(batch: Batch, *, offset_ms: int) -> int | None:
    """The oldest window, host sample or event; None when the batch holds none of them."""
    return min((start + offset_ms for start, _ in _extents(batch)), default=None)


def _extents(batch: Batch) -> Iterator[Span]:
    """From when to when the windows go, the host samples, and each event, by the agent's clock."""
    for starts in (batch.windows["start_ms"], batch.host.get("start_ms")):
        if starts:
            yield min(starts), max(starts) + batch.window_s * 1000
    for event in batch.events:
        yield event["at_ms"], event["at_ms"]


def changed(before: Sequence[Span], after: Sequence[Span]) -> list[Span]:
    """The time in exactly one of the two."""
    return union([*difference(before, after), *difference(after, before)])
