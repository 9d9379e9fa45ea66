"""The hands of the demo."""

from collections.abc import Mapping
from datetime import datetime

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
    run_alone(LOCK, _draw)


def _draw(now: datetime) -> Mapping[str, int]:
    """Asked again under the lock: the demo may have been removed while it was waited for."""
    return {} if organisation().demo_since is None else services.keep_going(now)
