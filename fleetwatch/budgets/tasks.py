"""The hands of budgets."""

from celery import shared_task

from fleetwatch.budgets import services
from fleetwatch.operations.services import run_alone


@shared_task(ignore_result=True)
def refresh() -> None:
    run_alone("budgets.refresh", services.refresh)
