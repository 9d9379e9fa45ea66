"""Nodes that fell silent stay on the bill until they are retired: what nobody observes costs what it costs, and is seen in every figure."""

from datetime import datetime
from pathlib import Path

from django.db import connection

from fleetwatch.lib.intervals import to_ms
from fleetwatch.lib.spans import Span
from fleetwatch.lib.sql import read_statement

SILENT_AFTER_MS = 3 * 60_000  # six flushes of 30 s
BILLED_BEHIND_MS = 60_000  # about as far behind now as a living node's newest windows
RETIRED_AFTER_MS = 7 * 86_400_000  # docs/ledger.md: capacity ends after 7 silent days, dated back to the last window
# What was received so long after it was measured is a replay or an import: its node was never live, and is not silent now.
REPLAYED_AFTER_MS = 3_600_000

BILL = read_statement(Path(__file__).parent / "sql" / "bill_silent.sql")


def bill(now: datetime) -> dict[int, Span]:
    """Node id -> the time by which the silence on its bill became longer; those nodes are locked until the transaction ends."""
    now_ms = to_ms(now)
    asked = {
        "silent_since_ms": now_ms - SILENT_AFTER_MS,
        "until_ms": now_ms - BILLED_BEHIND_MS,
        "known_since_ms": now_ms - RETIRED_AFTER_MS,
        "longest_ms": RETIRED_AFTER_MS,
        "replayed_ms": REPLAYED_AFTER_MS,
    }
    with connection.cursor() as cursor:
        cursor.execute(BILL, asked)
        return {node_id: (was_ms, is_ms) for node_id, was_ms, is_ms in cursor.fetchall()}
