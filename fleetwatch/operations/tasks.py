"""Housekeeping of operations."""

import time

from celery import Task, shared_task
from celery.signals import task_postrun
from django.utils import timezone

from fleetwatch.operations import services

SAYS_EVERY_S = 10
_last_word = {"s": float("-inf")}  # when this process did so last


@task_postrun.connect
def say_whose_worker_lives(task: Task | None = None, **_: object) -> None:
    """Each worker by what it does: the task that beats comes to one of them alone."""
    host = getattr(getattr(task, "request", None), "hostname", None)
    if host and time.monotonic() - _last_word["s"] >= SAYS_EVERY_S:
        _last_word["s"] = time.monotonic()
        services.beat_of_worker(host, timezone.now())


@shared_task(ignore_result=True)
def prune_runs() -> None:
    with services.record_run("operations.prune_runs") as did:
        did.update(services.prune_runs(timezone.now()))


@shared_task(ignore_result=True)
def beat_worker() -> None:
    """Came through beat, Redis and a worker: all three live."""
    services.beat("worker", timezone.now())
