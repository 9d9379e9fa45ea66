"""Joining: a node's sealed hours of a quarter of a day become one chunk, which is smaller and
quicker to read.

The rows are the same ones in the same order; what comes late merges into the joined chunk.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta

import structlog
from django.db import transaction

from fleetwatch.lib import rows
from fleetwatch.lib.batched import integers
from fleetwatch.lib.sql import execute, read_statement
from fleetwatch.telemetry import chunks
from fleetwatch.telemetry.chunks import SPAN, Packed
from fleetwatch.telemetry.locks import SEALING, try_node_locks
from fleetwatch.telemetry.seal import GRACE
from fleetwatch.telemetry.window_tables import HOST_INTS, WINDOW_INTS, joined

log = structlog.get_logger()

# After a span's last hour was sealed: what comes within an hour costs only the writing of a small
# chunk.
WAIT = GRACE + timedelta(hours=1)
# Spans of one transaction: each is about 1 MB of columns as bytes and 20 MB as arrays, one after
# the other.
SPANS_AT_ONCE = 8

FIND = read_statement("telemetry/sql/spans_to_join.sql")
PARTS = read_statement("telemetry/sql/parts_of_spans.sql")

Span = tuple[int, datetime]  # node id, start


def join_complete_spans(now: datetime, limit: int) -> dict[str, int]:
    """Counts of what was done: spans joined, of how many chunks; spans skipped (another worker has
    the node) and failed.

    At most `limit` spans, the oldest first. A span is complete when it ended WAIT before `now`;
    hours that are missing then do not matter: a chunk says which time it covers, not that there is
    something in all of it.
    """
    did: Counter[str] = Counter(spans=0, chunks=0)
    spans = _complete(now, limit)
    for start in range(0, len(spans), SPANS_AT_ONCE):
        did.update(_join_or_report(spans[start : start + SPANS_AT_ONCE]))
    return dict(did)


def _join_or_report(spans: Sequence[Span]) -> dict[str, int]:
    try:
        return _join(spans)
    except Exception:
        if len(spans) > 1:
            return dict(sum((Counter(_join_or_report([span])) for span in spans), Counter()))
        # one span that can't be joined stays as it is, readable hour by hour
        log.exception(
            "span could not be joined", node_id=spans[0][0], start=spans[0][1].isoformat()
        )
        return {"failed": 1}


@transaction.atomic
def _join(spans: Sequence[Span]) -> dict[str, int]:
    """Chunks are read after the lock is held: sealing merges late rows into them under the same
    lock.
    """
    mine = try_node_locks(SEALING, {node_id for node_id, _ in spans})
    parts = _parts([span for span in spans if span[0] in mine])
    whole = [_whole(span, pieces) for span, pieces in parts.items()]
    gone = [
        (piece.node_id, piece.start)
        for (_, start), pieces in parts.items()
        for piece in pieces
        if piece.start != start
    ]
    execute(
        "DELETE FROM telemetry_chunk WHERE (node_id, start) IN (SELECT * FROM"
        " unnest(%s::bigint[], %s::timestamptz[]))",
        [integers(node_id for node_id, _ in gone), [start for _, start in gone]],
    )
    chunks.store(whole)
    skipped = sum(1 for node_id, _ in spans if node_id not in mine)
    return {"spans": len(whole), "chunks": sum(map(len, parts.values()))} | (
        {"skipped": skipped} if skipped else {}
    )


def _complete(now: datetime, limit: int) -> list[Span]:
    return list(execute(FIND, {"ended": now - WAIT - SPAN, "limit": limit}))


def _parts(spans: Sequence[Span]) -> dict[Span, list[Packed]]:
    """Each span's chunks, oldest first; a span that is one chunk by now is not there."""
    if not spans:
        return {}
    parts: dict[Span, list[Packed]] = defaultdict(list)
    for start, *chunk in rows.fetched(
        PARTS, {"nodes": [node_id for node_id, _ in spans], "starts": [start for _, start in spans]}
    ):
        parts[chunk[0], start].append(Packed(*chunk))
    return {
        span: pieces
        for span, pieces in parts.items()
        if any(piece.end - piece.start < SPAN for piece in pieces)
    }


def _whole(span: Span, parts: Sequence[Packed]) -> Packed:
    nothing = joined([], ints=WINDOW_INTS, keys=()), joined([], ints=HOST_INTS, keys=())
    chunk, _ = chunks.merged(parts, *nothing, start=span[1], end=span[1] + SPAN)
    return chunk
