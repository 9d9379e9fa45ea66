"""Joining: a node's sealed hours of a quarter of a day become one chunk, which is smaller and
quicker to read.

The rows are the same ones in the same order; what comes late merges into the joined chunk.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import transaction

from fleetwatch.lib.batched import integers
from fleetwatch.lib.sql import execute, read_statement
from fleetwatch.telemetry import chunks
from fleetwatch.telemetry.chunks import SPAN, Packed
from fleetwatch.telemetry.locks import SEALING, try_node_locks
from fleetwatch.telemetry.portions import Stretch, counted, done_in_portions
from fleetwatch.telemetry.seal import GRACE

# After a span's last hour was sealed: what comes within an hour costs only the writing of a small
# chunk.
WAIT = GRACE + timedelta(hours=1)
# Spans of one transaction: each is about 1 MB of columns as bytes and 20 MB as arrays, one after
# the other.
SPANS_AT_ONCE = 8

FIND = read_statement("telemetry/sql/spans_to_join.sql")


def join_complete_spans(now: datetime, limit: int) -> dict[str, int]:
    """Counts of what was done: spans joined, of how many chunks; spans skipped (another worker has
    the node) and failed: one that can't be joined stays as it is, readable hour by hour.

    At most `limit` spans, the oldest first. A span is complete when it ended WAIT before `now`;
    hours that are missing then do not matter: a chunk says which time it covers, not that there is
    something in all of it.
    """
    did: Counter[str] = Counter(spans=0, chunks=0)
    did.update(
        done_in_portions(
            execute(FIND, {"ended": now - WAIT - SPAN, "limit": limit}),
            _join,
            at_once=SPANS_AT_ONCE,
            failure="span could not be joined",
        )
    )
    return dict(did)


@transaction.atomic
def _join(spans: Sequence[Stretch]) -> dict[str, int]:
    """Chunks are read after the lock is held: sealing merges late rows into them under the same
    lock.
    """
    mine = try_node_locks(SEALING, {node_id for node_id, _ in spans})
    parts = _parts([span for span in spans if span[0] in mine])
    _delete(
        [piece for (_, start), pieces in parts.items() for piece in pieces if piece.start != start]
    )
    chunks.store(
        [
            chunks.merged(pieces, start=start, end=start + SPAN)[0]
            for (_, start), pieces in parts.items()
        ]
    )
    return counted(
        spans=len(parts),
        chunks=sum(map(len, parts.values())),
        skipped=sum(node_id not in mine for node_id, _ in spans),
    )


def _delete(parts: Sequence[Packed]) -> None:
    execute(
        "DELETE FROM telemetry_chunk WHERE (node_id, start) IN (SELECT * FROM"
        " unnest(%s::bigint[], %s::timestamptz[]))",
        [integers(part.node_id for part in parts), [part.start for part in parts]],
    )


def _parts(spans: Sequence[Stretch]) -> dict[Stretch, list[Packed]]:
    """Each span's chunks, oldest first; a span that is one chunk by now is not there."""
    return {
        span: pieces
        for span, pieces in chunks.within(spans, SPAN).items()
        if any(piece.end - piece.start < SPAN for piece in pieces)
    }
