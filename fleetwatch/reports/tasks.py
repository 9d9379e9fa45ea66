"""The hands of reports."""

from celery import group, shared_task
from django.utils import timezone

from fleetwatch.operations.services import record_run
from fleetwatch.reports import monthly, services, statement_sending


@shared_task(ignore_result=True)
def weekly_digest() -> None:
    """Computes and queues the weekly digests that are due. Safe in parallel: one row per week and
    audience.
    """
    with record_run("reports.weekly_digest") as did:
        did.update(services.compute_weekly_digests(timezone.now()))


@shared_task(ignore_result=True)
def ask_for_last_month() -> None:
    with record_run("reports.ask_for_last_month") as did:
        did.update(monthly.ask_for_last_month(timezone.now()))


@shared_task(ignore_result=True)
def send_statements() -> None:
    """Queues the statements of the month that was over last. Safe twice: one delivery per month and
    recipient.
    """
    with record_run("reports.send_statements") as did:
        did.update(statement_sending.send_due(timezone.now()))


@shared_task(ignore_result=True)
def compute() -> None:
    """Plans what was asked for and hands its parts out to all workers.

    Safe in parallel: rows are claimed.
    """
    with record_run("reports.compute") as did:
        did.update(monthly.plan_waiting(timezone.now()))
        group(compute_part.si(part) for part in monthly.hand_out(timezone.now())).apply_async()


@shared_task(ignore_result=True)
def compute_part(part_id: int) -> None:
    with record_run("reports.compute_part") as did:
        did.update(monthly.compute_part(part_id, timezone.now()))
