"""The ledger's clock: what was touched is posted within seconds, of the hour that goes on within
two minutes.
"""

from datetime import timedelta

from celery import shared_task
from django.utils import timezone

from fleetwatch.ledger import idle_power, retention, services, state_days
from fleetwatch.operations.services import record_run, run_alone

HOURS_PER_RUN = 2000
# The hour that goes on is posted so long after its node was posted last; beat may be early by some
# seconds, and the eighth run is not to become the ninth.
OPEN_HOUR_EACH = timedelta(minutes=2) - timedelta(seconds=5)
STATE_DAYS_PER_RUN = 10_000  # a minute
GPUS_PER_RUN = 200


@shared_task(ignore_result=True)
def post() -> None:
    """Several may run at once: each claims other nodes."""
    with record_run("ledger.post") as did:
        did.update(services.post(timezone.now(), HOURS_PER_RUN, open_hour_each=OPEN_HOUR_EACH))


@shared_task(ignore_result=True)
def refresh_state_days() -> None:
    run_alone("ledger.refresh_state_days", lambda now: state_days.refresh(now, STATE_DAYS_PER_RUN))


@shared_task(ignore_result=True)
def learn_idle_power() -> None:
    run_alone("ledger.learn_idle_power", lambda now: idle_power.learn(now, GPUS_PER_RUN))


@shared_task(ignore_result=True)
def apply_retention() -> None:
    run_alone("ledger.apply_retention", retention.apply)
