"""The stack's own clock."""

from celery import shared_task
from django.utils import timezone

from fleetwatch.lib.sql import advisory_lock
from fleetwatch.operations import disk
from fleetwatch.operations.services import record_run
from fleetwatch.stack import room


@shared_task(ignore_result=True)
def make_room() -> None:
    """No row for each time that there is room."""
    if not disk.is_short():
        return
    with advisory_lock("stack.make_room") as held, record_run("stack.make_room") as did:
        did.update(room.make_room(timezone.now()) if held else {"skipped": 1})
