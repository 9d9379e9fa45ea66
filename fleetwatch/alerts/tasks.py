"""The hands of alerts."""

from celery import shared_task
from django.utils import timezone

from fleetwatch.alerts import back_test_runs, tried_rules
from fleetwatch.alerts.messaging import announcing
from fleetwatch.alerts.models import BackTestRun
from fleetwatch.operations.services import record_run


@shared_task(ignore_result=True)
def evaluate() -> None:
    """Opens and resolves incidents and tells of them; several may run at once, each does what no
    other one is at.
    """
    with record_run("alerts.evaluate") as did:
        did.update(announcing.run(timezone.now()))


@shared_task(ignore_result=True)
def try_rules() -> None:
    """Tries a rule on history that no request could. Safe in parallel: its row is claimed."""
    with record_run("alerts.try_rules") as did:
        did.update(
            back_test_runs.advance(BackTestRun.Kind.RULE, tried_rules.try_out, timezone.now())
        )
