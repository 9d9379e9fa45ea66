"""The hands of finance."""

from celery import shared_task
from django.utils import timezone

from fleetwatch.finance import trial_runs
from fleetwatch.operations.services import record_run


@shared_task(ignore_result=True)
def advance_trials() -> None:
    """Goes on with the policy trial that runs. Safe in parallel: its row is claimed."""
    with record_run("finance.advance_trials") as did:
        did.update(trial_runs.advance(timezone.now()))
