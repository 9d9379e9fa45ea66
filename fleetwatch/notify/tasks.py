"""The hands of notify."""

from celery import shared_task
from django.utils import timezone

from fleetwatch.accounts.selectors import organisation
from fleetwatch.notify import delivering
from fleetwatch.operations.services import record_run

MAX_DELIVERIES_PER_RUN = 50


@shared_task(ignore_result=True)
def deliver_due() -> None:
    """Sends what is due, of a demo nothing. Several may run at once: each claims its own rows."""
    if organisation().demo_since is not None:
        return
    with record_run("notify.deliver") as did:
        did.update(delivering.deliver_due(timezone.now(), MAX_DELIVERIES_PER_RUN))


@shared_task(ignore_result=True)
def prune_deliveries() -> None:
    """Forgets deliveries that are long done with."""
    with record_run("notify.prune_deliveries") as did:
        did.update(delivering.prune_deliveries(timezone.now()))
