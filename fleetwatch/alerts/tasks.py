"""The hands of alerts."""

from celery import shared_task
from django.utils import timezone

from fleetwatch.alerts.messaging import announcing
from fleetwatch.operations.services import record_run


@shared_task(ignore_result=True)
def evaluate() -> None:
    """Opens and resolves incidents and tells of them; several may run at once, each does what no
    other one is at.
    """
    with record_run("alerts.evaluate") as did:
        did.update(announcing.run(timezone.now()))
