"""Which jobs changed owners lately: noted by the database (sql/note_owner_changes.sql), kept as
long as somebody may still ask for them.
"""

from datetime import datetime, timedelta

from fleetwatch.lib.sql import execute, read_statement

# whose jobs are is kept by a process for less, and then read whole (figures/job_owners.py)
KEPT_FOR = timedelta(hours=2)

_FORGET = read_statement("costs/sql/forget_owner_changes.sql")


def forget(now: datetime) -> dict[str, int]:
    """How many changes were deleted, that everybody could read for two hours."""
    return {"deleted": len(execute(_FORGET, {"now": now, "before": now - KEPT_FOR}))}
