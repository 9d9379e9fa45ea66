"""Background work of ingest."""

from celery import shared_task
from django.utils import timezone

from fleetwatch.ingest.services import believe_silent_moves, bill_silent_nodes, retire_silent_gpus
from fleetwatch.jobs.job_writes import drop_unheard
from fleetwatch.lib.sql import advisory_lock
from fleetwatch.operations.services import record_run


@shared_task(ignore_result=True)
def retire_silent() -> None:
    with advisory_lock("ingest.retire_silent") as held:
        if held:
            with record_run("ingest.retire_silent") as did:
                did.update(retire_silent_gpus(timezone.now()) | drop_unheard(timezone.now()))


@shared_task(ignore_result=True)
def believe_moves() -> None:
    with advisory_lock("ingest.believe_moves") as held:
        if held:
            with record_run("ingest.believe_moves") as did:
                did.update(believe_silent_moves(timezone.now()))


@shared_task(ignore_result=True)
def bill_silent() -> None:
    with advisory_lock("ingest.bill_silent") as held:
        if held:
            with record_run("ingest.bill_silent") as did:
                did.update(bill_silent_nodes(timezone.now()))
