"""The hands of the demo."""

from celery import shared_task

from fleetwatch.accounts.selectors import organisation
from fleetwatch.demo import services
from fleetwatch.demo.loading import LOCK
from fleetwatch.operations.services import run_alone


@shared_task(ignore_result=True)
def keep_going() -> None:
    """No row for each time on a hub without the demo."""
    if organisation().demo_since is None:
        return
    run_alone(LOCK, services.keep_going)
