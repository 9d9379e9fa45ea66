"""The stack's own clock."""

from celery import shared_task

from fleetwatch.operations import disk
from fleetwatch.operations.services import run_alone
from fleetwatch.stack import room


@shared_task(ignore_result=True)
def make_room() -> None:
    """No row for each time that there is room."""
    if not disk.is_short():
        return
    run_alone("stack.make_room", room.make_room)
