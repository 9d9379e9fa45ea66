"""Diagnosis' clock: what was posted is explained within minutes."""

from celery import shared_task
from django.utils import timezone

from fleetwatch.diagnosis import fixing, retention, services
from fleetwatch.lib.sql import advisory_lock
from fleetwatch.operations.services import record_run

HOURS_PER_RUN = 12_000  # 500 nodes x 24 hours


@shared_task(ignore_result=True)
def diagnose() -> None:
    with advisory_lock("diagnosis.diagnose") as held, record_run("diagnosis.diagnose") as did:
        did.update(services.diagnose(timezone.now(), HOURS_PER_RUN) if held else {"skipped": 1})


@shared_task(ignore_result=True)
def forget_cells() -> None:
    with record_run("diagnosis.forget_cells") as did:
        did["hours"] = services.forget_cells(timezone.now())


@shared_task(ignore_result=True)
def apply_retention() -> None:
    with advisory_lock("diagnosis.apply_retention") as held, record_run("diagnosis.apply_retention") as did:
        did.update(retention.apply(timezone.now()) if held else {"skipped": 1})


@shared_task(ignore_result=True)
def measure_fixes() -> None:
    with advisory_lock("diagnosis.measure_fixes") as held, record_run("diagnosis.measure_fixes") as did:
        did.update(fixing.measure(timezone.now()) if held else {"skipped": 1})
