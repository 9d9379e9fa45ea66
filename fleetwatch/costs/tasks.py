"""Background work of costs."""

from celery import shared_task
from django.utils import timezone

from fleetwatch.costs import services
from fleetwatch.lib.sql import advisory_lock
from fleetwatch.operations.services import record_run


@shared_task(ignore_result=True)
def ensure_example_rates() -> None:
    with advisory_lock("costs.ensure_example_rates") as held, record_run("costs.ensure_example_rates") as did:
        did.update(services.ensure_example_rates(timezone.now()) if held else {})
