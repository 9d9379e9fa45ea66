"""A batch that the hub finds too large, as two halves whose names can't be anything else's."""

import zlib
from dataclasses import replace
from typing import Optional, Sequence, Tuple

from agent import wire
from agent.batch import entry
from agent.sending.payloads import batch_of
from agent.sending.store import Entry

# A half is named by its place in the tree of splits (root 1, children 2n and 2n + 1) above the
# whole's sequence, so that a batch split again after a restart gets the same names and a half never
# answers to the name of the whole.
PLACE_SHIFT = 40
MAX_PLACE = 2**21


def split(whole: Entry) -> Optional[Tuple[Entry, Entry]]:
    """Both halves, by time where the windows have more than one start, else by GPU; None when there
    is nothing to halve, and for a damaged one.
    """
    try:
        batch = batch_of(whole.payload)
    except (ValueError, OSError, EOFError, zlib.error):
        return None
    place = max(1, whole.sequence >> PLACE_SHIFT)
    if len(batch.windows["start_ms"]) < 2 or 2 * place + 1 >= MAX_PLACE:
        return None
    number = whole.sequence & ((1 << PLACE_SHIFT) - 1)
    first, second = (
        entry(half, number | (2 * place + side) << PLACE_SHIFT)
        for side, half in enumerate(_halves(batch))
    )
    return first, second


def _halves(batch: wire.Batch) -> Tuple[wire.Batch, wire.Batch]:
    """What is of no window lies with the first half where all windows have one start."""
    starts = batch.windows["start_ms"]
    cut_ms = sorted(starts)[len(starts) // 2]
    if cut_ms == min(starts):  # more than half of the windows have the first start
        cut_ms = min((start for start in starts if start > cut_ms), default=wire.MAX_TIME_MS + 1)
    rows = range(len(starts))
    later = {row for row in rows if starts[row] >= cut_ms} or set(rows[len(starts) // 2 :])
    earlier = [row for row in rows if row not in later]
    return _part(batch, earlier, until_ms=cut_ms), _part(batch, sorted(later), from_ms=cut_ms)


def _part(
    batch: wire.Batch,
    rows: Sequence[int],
    *,
    from_ms: int = 0,
    until_ms: int = wire.MAX_TIME_MS + 1,
) -> wire.Batch:
    hosts = [
        row
        for row, start_ms in enumerate(batch.host.get("start_ms", []))
        if from_ms <= start_ms < until_ms
    ]
    return replace(
        batch,
        windows=_take(batch.windows, rows),
        host=_take(batch.host, hosts),
        events=[event for event in batch.events if from_ms <= event["at_ms"] < until_ms],
    )


def _take(columns: wire.Columns, rows: Sequence[int]) -> wire.Columns:
    return {name: [column[row] for row in rows] for name, column in columns.items()}
