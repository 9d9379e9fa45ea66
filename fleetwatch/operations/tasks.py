"""Housekeeping of operations."""

from celery import shared_task
from django.utils import timezone

from fleetwatch.operations import services


@shared_task(ignore_result=True)
def prune_runs() -> None:
    with services.record_run("operations.prune_runs") as did:
        did.update(services.prune_runs(timezone.now()))


@shared_task(ignore_result=True)
def beat_worker() -> None:
    """Came through beat, Redis and a worker: all three live."""
    services.beat("worker", timezone.now())
