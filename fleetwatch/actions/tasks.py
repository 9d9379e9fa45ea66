"""The hands of actions."""

from celery import shared_task
from django.utils import timezone

from fleetwatch.actions import past_ladders, taking_steps
from fleetwatch.alerts import back_test_runs
from fleetwatch.alerts.models import BackTestRun
from fleetwatch.operations.services import record_run


@shared_task(ignore_result=True)
def advance() -> None:
    """Warns, acts and hears what came of it; several may run at once."""
    with record_run("actions.advance") as did:
        did.update(taking_steps.advance(timezone.now()))


@shared_task(ignore_result=True)
def try_policies() -> None:
    """Tries a policy on history that no request could. Safe in parallel: its row is claimed."""
    with record_run("actions.try_policies") as did:
        did.update(
            back_test_runs.advance(BackTestRun.Kind.POLICY, past_ladders.try_out, timezone.now())
        )
