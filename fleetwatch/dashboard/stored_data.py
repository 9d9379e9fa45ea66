"""What is kept for how long, and what of it is there."""

from dataclasses import dataclass
from datetime import datetime

from fleetwatch.lib.sql import execute, read_statement

_STORED = read_statement("dashboard/sql/stored.sql")


@dataclass(frozen=True, slots=True)
class Stored:
    """Bytes on disk, indexes included, and the moment that the oldest of it is of (None = there is
    none).
    """

    size: int
    oldest: datetime | None


def stored_data() -> dict[str, Stored]:
    """By kind: batches, columns, curves, ledger."""
    return {kind: Stored(size, oldest) for kind, size, oldest in execute(_STORED, {})}
