"""The hands of budgets."""

from celery import shared_task
from django.utils import timezone

from fleetwatch.budgets import services
from fleetwatch.lib.sql import advisory_lock
from fleetwatch.operations.services import record_run


@shared_task(ignore_result=True)
def refresh() -> None:
    with advisory_lock("budgets.refresh") as held, record_run("budgets.refresh") as did:
        did.update(services.refresh(timezone.now()) if held else {})
