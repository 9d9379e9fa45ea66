"""The ledger's clock: what was touched is posted within seconds."""

from celery import shared_task
from django.utils import timezone

from fleetwatch.ledger import idle_power, retention, services, state_days
from fleetwatch.lib.sql import advisory_lock
from fleetwatch.operations.services import record_run

HOURS_PER_RUN = 2000
STATE_DAYS_PER_RUN = 10_000  # a minute
GPUS_PER_RUN = 200


@shared_task(ignore_result=True)
def post() -> None:
    """Several may run at once: each claims other nodes."""
    with record_run("ledger.post") as did:
        did.update(services.post(timezone.now(), HOURS_PER_RUN))


@shared_task(ignore_result=True)
def refresh_state_days() -> None:
    with (
        advisory_lock("ledger.refresh_state_days") as held,
        record_run("ledger.refresh_state_days") as did,
    ):
        did.update(
            state_days.refresh(timezone.now(), STATE_DAYS_PER_RUN) if held else {"skipped": 1}
        )


@shared_task(ignore_result=True)
def learn_idle_power() -> None:
    with (
        advisory_lock("ledger.learn_idle_power") as held,
        record_run("ledger.learn_idle_power") as did,
    ):
        did.update(idle_power.learn(timezone.now(), GPUS_PER_RUN) if held else {"skipped": 1})


@shared_task(ignore_result=True)
def apply_retention() -> None:
    with (
        advisory_lock("ledger.apply_retention") as held,
        record_run("ledger.apply_retention") as did,
    ):
        did.update(retention.apply(timezone.now()) if held else {"skipped": 1})
