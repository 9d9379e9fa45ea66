"""Work that no request waits for. The row is the queue: a worker claims it for some minutes and
keeps how far it is; where it is killed another one takes it over, and anybody may stop it.
"""

from datetime import datetime, timedelta
from typing import Any, TypeVar

from django.db import transaction
from django.db.models import QuerySet

from fleetwatch.operations.models import BackgroundWork

# By workers of what another one died at: what kills them is not tried for ever.
MAX_TAKEOVERS = 2

Work = TypeVar("Work", bound=BackgroundWork)
State = BackgroundWork.State


@transaction.atomic
def claim(rows: QuerySet[Work], now: datetime, *, claimed_for: timedelta) -> Work | None:
    """The oldest of these that runs and that no worker has, as this worker's. One whose workers
    died one after the other has failed.
    """
    running = rows.select_for_update(skip_locked=True, of=("self",)).filter(state=State.RUNNING)
    for row in running.order_by("pk"):
        if row.worked_until is not None and row.worked_until > now:
            continue
        if row.worked_until is not None and row.takeovers >= MAX_TAKEOVERS:
            settle(row, state=State.FAILED, finished_at=now)
            continue
        row.takeovers += row.worked_until is not None
        row.worked_until = now + claimed_for
        row.save(update_fields=["worked_until", "takeovers"])
        return row
    return None


def settle(claimed: Work, **values: Any) -> bool:
    """Writes these where it still runs and no other worker claimed it meanwhile; else False."""
    own = type(claimed)._default_manager.filter(
        pk=claimed.pk, state=State.RUNNING, worked_until=claimed.worked_until
    )
    is_own = bool(own.update(**values))
    if "worked_until" in values:
        claimed.worked_until = values["worked_until"]
    return is_own


def stop(row: Work, *, now: datetime, **values: Any) -> bool:
    """Whether it was running; its worker ends with the part that it is at."""
    running = type(row)._default_manager.filter(pk=row.pk, state=State.RUNNING)
    return bool(running.update(state=State.STOPPED, finished_at=now, **values))
