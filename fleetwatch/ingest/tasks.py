"""Background work of ingest."""

from datetime import datetime

from celery import shared_task

from fleetwatch.ingest.services import believe_silent_moves, bill_silent_nodes, retire_silent_gpus
from fleetwatch.jobs.job_writes import drop_unheard
from fleetwatch.operations.services import run_alone


@shared_task(ignore_result=True)
def retire_silent() -> None:
    run_alone("ingest.retire_silent", _retire_silent)


@shared_task(ignore_result=True)
def believe_moves() -> None:
    run_alone("ingest.believe_moves", believe_silent_moves)


@shared_task(ignore_result=True)
def bill_silent() -> None:
    run_alone("ingest.bill_silent", bill_silent_nodes)


def _retire_silent(now: datetime) -> dict[str, int]:
    return retire_silent_gpus(now) | drop_unheard(now)
