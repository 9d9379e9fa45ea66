"""Rows of batches that say of their nodes what is known already: written together, in one
statement.

What a node's newest batch said of labels and GPUs has a digest (inventory/steady.py), what it said
of jobs another (jobs/repeats.py). While the next ones have the same, nothing is written but the
batch itself, that time went on, and the marks of what is to be done with it.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import accumulate
from typing import Any, NamedTuple

from fleetwatch.inventory.models import REPLAYED_AFTER_MS
from fleetwatch.inventory.stays import GAP_MS
from fleetwatch.lib.batched import digests, integers, moments, run, texts
from fleetwatch.lib.sql import read_statement
from fleetwatch.telemetry.services import ensure_partition

CONTINUE = read_statement("ingest/sql/continue_nodes.sql")
_WHOLE = (
    "node_id",
    "boot_start_ms",
    "sequence",
    "start_ms",
    "last_ms",
    "end_ms",
    "newest_ms",
)


class Continued(NamedTuple):
    """One batch of a node, newer than all before it, its facts those with `digest`, its times right
    as they are; at least one window, nothing in quarantine.
    """

    node_id: int
    digest: bytes
    words: bytes  # digest of what it says of jobs; b"" = something new
    boot_id: str
    boot_start_ms: int
    sequence: int
    start_ms: int  # of its first window
    last_ms: int  # of its last; none of the hours between has no window, and no other a host sample
    # of its last window: each of its GPUs has one that ends there, or is the parent of one that has
    end_ms: int
    newest_ms: int  # of windows and host samples
    received_at: datetime
    agent: str  # JSON
    payload: bytes  # as packed
    # (boot start, sequence) of the batch that has to be the newest before it; None: whichever is
    quiet_since: tuple[int, int] | None


class Lived(NamedTuple):
    """How a node lives on by a batch."""

    was_ms: int  # last_ms before
    is_ms: int  # and after
    former: tuple[int, int]  # (boot start, sequence) of the newest batch before


def store(
    batches: Sequence[Continued], *, final_ms: int, lock_ms: int, statement_ms: int
) -> dict[int, Lived]:
    """By node id, of the batches that are stored: their nodes, locked until the transaction ends,
    and their GPUs live on. Of one that does not only continue nothing is written.

    `lock_ms`, `statement_ms`: so long this transaction waits for a row, and for each further
    statement (lib.sql.limit_waits, without a round trip of its own). `final_ms`: hours before it
    are not posted again.

    At most one batch of a node.
    """
    received = [batch.received_at for batch in batches]
    for received_at in {min(received), max(received)}:  # within a second
        ensure_partition(received_at)
    parameters = {
        **_columns(batches),
        **_payloads(batches),
        "gap": GAP_MS,
        "replayed": REPLAYED_AFTER_MS,
        "final_ms": final_ms,
        "lock": f"{lock_ms}ms",
        "statement": f"{statement_ms}ms",
    }
    return {
        node_id: Lived(was_ms, is_ms, tuple(former))
        for node_id, was_ms, is_ms, *former in run(CONTINUE, parameters)
    }


def _columns(batches: Sequence[Continued]) -> dict[str, str | bytes]:
    """One array of each attribute but the payloads."""
    given: dict[str, Any] = dict(zip(Continued._fields, zip(*batches, strict=True), strict=True))
    return {
        **{name: integers(given[name]) for name in _WHOLE},
        **{name: digests(given[name]) for name in ("digest", "words")},
        **{name: texts(given[name]) for name in ("boot_id", "agent")},
        "facts_order": _orders(zip(given["boot_start_ms"], given["sequence"], strict=True)),
        "quiet_since": _orders(given["quiet_since"]),
        "received_at": moments(given["received_at"]),
    }


def _payloads(batches: Sequence[Continued]) -> dict[str, str | bytes]:
    """One after the other, where each begins (the first at 1), and how long it is."""
    sizes = [len(batch.payload) for batch in batches]
    return {
        "payloads": b"".join([batch.payload for batch in batches]),
        "payload_start": integers(accumulate(sizes[:-1], initial=1)),
        "payload_size": integers(sizes),
    }


def _orders(orders: Iterable[tuple[int, int] | None]) -> str:
    """An array of JSON, as Node.facts_order is."""
    written = ["NULL" if order is None else f'"[{order[0]},{order[1]}]"' for order in orders]
    return "{" + ",".join(written) + "}"
