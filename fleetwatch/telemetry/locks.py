"""Locks per node and purpose, held until the transaction ends: two workers never do one thing to a
node at once.
"""

from collections.abc import Iterable

from fleetwatch.lib.sql import execute

# First keys of two-key advisory locks; 0 is that of turns (lib.sql). Other locks have one key.
SEALING = 1
POSTING = 2
DIAGNOSING = 3


def try_node_locks(purpose: int, node_ids: Iterable[int]) -> set[int]:
    """Those of the nodes for which this transaction now alone does `purpose`; never waits."""
    return {
        node_id
        for node_id, is_held in execute(
            "SELECT node_id, pg_try_advisory_xact_lock(%s, (node_id %% 2147483648)::int) FROM"
            " unnest(%s::bigint[]) AS wanted (node_id)",
            [purpose, list(node_ids)],
        )
        if is_held
    }
