"""Diagnosis' clock: what was posted is explained within minutes."""

from datetime import datetime

from celery import shared_task
from django.utils import timezone

from fleetwatch.diagnosis import retention, services
from fleetwatch.diagnosis.findings import fixing, noted_facts
from fleetwatch.operations.selectors import has_done
from fleetwatch.operations.services import record_run, run_alone

HOURS_PER_RUN = 12_000  # 500 nodes x 24 hours
LIVE_MINUTES = 5  # a cell
NOTED_PER_RUN = 60  # findings whose newest window is read again: 4 s


@shared_task(ignore_result=True)
def diagnose() -> None:
    """Each minute what is over; the hour that goes on, which changes with every batch, in each five
    minutes once. Several may run at once, each at other nodes.
    """
    now = timezone.now()
    with record_run("diagnosis.diagnose") as did:
        is_live = not has_done("diagnosis.diagnose", "live", since=_five_minutes(now))
        did.update(services.diagnose(now, HOURS_PER_RUN, is_live=is_live) | {"live": int(is_live)})
        did["noted"] = noted_facts.note(NOTED_PER_RUN)


def _five_minutes(now: datetime) -> datetime:
    """Where the five minutes of the clock that hold `now` begin."""
    return now.replace(minute=now.minute // LIVE_MINUTES * LIVE_MINUTES, second=0, microsecond=0)


@shared_task(ignore_result=True)
def forget_cells() -> None:
    with record_run("diagnosis.forget_cells") as did:
        did["hours"] = services.forget_cells(timezone.now())


@shared_task(ignore_result=True)
def apply_retention() -> None:
    run_alone("diagnosis.apply_retention", retention.apply)


@shared_task(ignore_result=True)
def measure_fixes() -> None:
    run_alone("diagnosis.measure_fixes", fixing.measure)
