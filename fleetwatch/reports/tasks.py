"""The hands of reports."""

from celery import shared_task
from django.utils import timezone

from fleetwatch.operations.services import record_run
from fleetwatch.reports import services


@shared_task(ignore_result=True)
def weekly_digest() -> None:
    """Computes and queues the weekly digest when it is due. Safe in parallel: one row per week."""
    with record_run("reports.weekly_digest") as did:
        did.update(services.compute_weekly_digest(timezone.now()))
