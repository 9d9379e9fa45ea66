"""Background work of ingest."""

from celery import shared_task
from django.utils import timezone

from fleetwatch.ingest.services import retire_silent_gpus
from fleetwatch.lib.sql import advisory_lock
from fleetwatch.operations.services import record_run


@shared_task(ignore_result=True)
def retire_silent() -> None:
    with advisory_lock("ingest.retire_silent") as held:
        if held:
            with record_run("ingest.retire_silent") as did:
                did.update(retire_silent_gpus(timezone.now()))
