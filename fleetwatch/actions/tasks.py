"""The hands of actions."""

from celery import shared_task
from django.utils import timezone

from fleetwatch.actions import taking_steps
from fleetwatch.operations.services import record_run


@shared_task(ignore_result=True)
def advance() -> None:
    """Warns, acts and hears what came of it; several may run at once."""
    with record_run("actions.advance") as did:
        did.update(taking_steps.advance(timezone.now()))
