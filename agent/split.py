"""A batch that the hub finds too large, as two halves whose names can't be anything else's."""

import gzip
from dataclasses import replace
from typing import Any, Dict, List, Optional, Sequence, Tuple

from agent import wire
from agent.batch import entry
from agent.store import Entry

# A half is named by its place in the tree of splits (root 1, children 2n and 2n + 1) above the
# whole's sequence, so that a batch split again after a restart gets the same names and a half never
# answers to the name of the whole.
PLACE_SHIFT = 40
MAX_PLACE = 2**21


def split(whole: Entry) -> Optional[Tuple[Entry, Entry]]:
    """Both halves, by time where the windows have more than one start, else by GPU; None when there
    is nothing to halve.
    """
    batch = wire.decode(gzip.decompress(whole.payload))
    starts = sorted(batch.windows["start_ms"])
    place = max(1, whole.sequence >> PLACE_SHIFT)
    if len(starts) < 2 or 2 * place + 1 >= MAX_PLACE:
        return None
    halves = (
        _by_time(batch, cut_ms=starts[len(starts) // 2])
        if starts[0] < starts[-1]
        else _by_row(batch, len(starts) // 2)
    )
    number = whole.sequence & ((1 << PLACE_SHIFT) - 1)
    first, second = (
        entry(half, number | (2 * place + side) << PLACE_SHIFT) for side, half in enumerate(halves)
    )
    return first, second


def _by_time(batch: wire.Batch, *, cut_ms: int) -> Tuple[wire.Batch, wire.Batch]:
    starts = batch.windows["start_ms"]
    if min(starts) == cut_ms:  # more than half of the windows have the first start
        cut_ms = min(start for start in starts if start > cut_ms)
    return _part(batch, until_ms=cut_ms), _part(batch, from_ms=cut_ms)


def _part(
    batch: wire.Batch, *, from_ms: int = 0, until_ms: int = wire.MAX_TIME_MS + 1
) -> wire.Batch:
    def rows(starts: Sequence[int]) -> List[int]:
        return [row for row, start_ms in enumerate(starts) if from_ms <= start_ms < until_ms]

    return replace(
        batch,
        windows=_take(batch.windows, rows(batch.windows["start_ms"])),
        host=_take(batch.host, rows(batch.host.get("start_ms", []))),
        events=[event for event in batch.events if from_ms <= event["at_ms"] < until_ms],
    )


def _by_row(batch: wire.Batch, middle: int) -> Tuple[wire.Batch, wire.Batch]:
    count = len(batch.windows["start_ms"])
    first = replace(batch, windows=_take(batch.windows, range(middle)))
    second = replace(batch, windows=_take(batch.windows, range(middle, count)), host={}, events=[])
    return first, second


def _take(columns: Dict[str, List[Any]], rows: Sequence[int]) -> Dict[str, List[Any]]:
    return {name: [column[row] for row in rows] for name, column in columns.items()}
