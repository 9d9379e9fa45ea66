"""The hands of alerts."""

from celery import shared_task
from django.utils import timezone

from fleetwatch.alerts import services
from fleetwatch.operations.services import record_run


@shared_task(ignore_result=True)
def evaluate() -> None:
    """Opens and resolves incidents; a second run at the same time waits for the first."""
    with record_run("alerts.evaluate") as did:
        did.update(services.evaluate(timezone.now()))
