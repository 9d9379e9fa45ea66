"""The clock and the hands: every schedule of FleetWatch is in this one dict.

State lives in Postgres.
"""

import os
import warnings
from typing import Any

import structlog
from celery import Celery, Task
from celery.platforms import SecurityWarning
from celery.signals import worker_process_init, worker_ready
from django.db import connections
from django.db.backends.postgresql.base import DatabaseWrapper

from fleetwatch.operations import disk

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fleetwatch.settings")

# `make up` works as root too; the warning is about pickled messages, and ours are JSON
warnings.filterwarnings("ignore", category=SecurityWarning)

LAST = 9  # of the priorities on Redis, where 0 goes first and is what a task without one has

# They only add: while the disk is short of room they wait, and what they are to do waits in rows.
WAITING_FOR_ROOM = frozenset(
    f"fleetwatch.{task}"
    for task in (
        "ledger.tasks.post",
        "ledger.tasks.refresh_state_days",
        "telemetry.tasks.join",
        "telemetry.tasks.refresh_recent_cells",
        "costs.tasks.sum_recent_days",
        "costs.tasks.sum_all_days",
        "diagnosis.tasks.diagnose",
        "reports.tasks.compute",
    )
)

log = structlog.get_logger(__name__)


class ThriftyTask(Task):  # type: ignore[misc]  # celery brings no types
    """A task that knows whether there is room for what it adds."""

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        if self.name in WAITING_FOR_ROOM and disk.is_short():
            log.warning("task waits for room on the disk", name=self.name)
            return None
        return super().__call__(*args, **keywords)


app = Celery("fleetwatch", task_cls=ThriftyTask)
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.conf.update(
    # the in-memory scheduler: the default's shelve file breaks on kill -9
    beat_scheduler="celery.beat:Scheduler",
    # a pickled message is refused: it would be code of whoever wrote it to Redis
    accept_content=["json"],
    task_serializer="json",
    task_ignore_result=True,
    task_acks_late=True,  # every task is idempotent
    worker_prefetch_multiplier=1,
    task_time_limit=600,
    task_soft_time_limit=540,
    broker_transport_options={"visibility_timeout": 1200},
    broker_connection_retry_on_startup=True,
    timezone="UTC",
    beat_schedule={
        # several may run at once, for minutes while history comes in: what else is due goes first,
        # or would expire before its turn
        "ledger.post": {
            "task": "fleetwatch.ledger.tasks.post",
            "schedule": 15.0,
            "options": {"expires": 60, "priority": LAST},
        },
        "ledger.learn_idle_power": {
            "task": "fleetwatch.ledger.tasks.learn_idle_power",
            "schedule": 600.0,
            "options": {"expires": 600},
        },
        "ledger.apply_retention": {
            "task": "fleetwatch.ledger.tasks.apply_retention",
            "schedule": 3600.0,
        },
        "ledger.refresh_state_days": {
            "task": "fleetwatch.ledger.tasks.refresh_state_days",
            "schedule": 300.0,
            "options": {"expires": 300},
        },
        "operations.beat_worker": {
            "task": "fleetwatch.operations.tasks.beat_worker",
            "schedule": 10.0,
            "options": {"expires": 30},
        },
        "ingest.retire_silent": {
            "task": "fleetwatch.ingest.tasks.retire_silent",
            "schedule": 3600.0,
        },
        "ingest.believe_moves": {
            "task": "fleetwatch.ingest.tasks.believe_moves",
            "schedule": 60.0,
            "options": {"expires": 60},
        },
        "ingest.bill_silent": {
            "task": "fleetwatch.ingest.tasks.bill_silent",
            "schedule": 60.0,
            "options": {"expires": 60},
        },
        "operations.prune_runs": {
            "task": "fleetwatch.operations.tasks.prune_runs",
            "schedule": 3600.0,
        },
        "telemetry.seal": {
            "task": "fleetwatch.telemetry.tasks.seal",
            "schedule": 60.0,
            "options": {"expires": 300},
        },
        "telemetry.join": {
            "task": "fleetwatch.telemetry.tasks.join",
            "schedule": 300.0,
            "options": {"expires": 300},
        },
        "telemetry.refresh_recent_cells": {
            "task": "fleetwatch.telemetry.tasks.refresh_recent_cells",
            "schedule": 60.0,
            "options": {"expires": 60},
        },
        "telemetry.keep_partitions": {
            "task": "fleetwatch.telemetry.tasks.keep_partitions",
            "schedule": 600.0,
        },
        # before anything that adds rows: `post` and the like wait while it has something to do
        "stack.make_room": {
            "task": "fleetwatch.stack.tasks.make_room",
            "schedule": 30.0,
            "options": {"expires": 30},
        },
        "telemetry.apply_retention": {
            "task": "fleetwatch.telemetry.tasks.apply_retention",
            "schedule": 3600.0,
        },
        "costs.ensure_example_rates": {
            "task": "fleetwatch.costs.tasks.ensure_example_rates",
            "schedule": 60.0,
        },
        "costs.note_places": {
            "task": "fleetwatch.costs.tasks.note_places",
            "schedule": 60.0,
            "options": {"expires": 60},
        },
        # before a new job's first time is posted: posting runs as often
        "costs.attribute_changed": {
            "task": "fleetwatch.costs.tasks.attribute_changed",
            "schedule": 15.0,
            "options": {"expires": 60},
        },
        "costs.sum_recent_days": {
            "task": "fleetwatch.costs.tasks.sum_recent_days",
            "schedule": 60.0,
            "options": {"expires": 60},
        },
        "costs.sum_all_days": {"task": "fleetwatch.costs.tasks.sum_all_days", "schedule": 3600.0},
        "budgets.refresh": {
            "task": "fleetwatch.budgets.tasks.refresh",
            "schedule": 300.0,
            "options": {"expires": 300},
        },
        "diagnosis.diagnose": {
            "task": "fleetwatch.diagnosis.tasks.diagnose",
            "schedule": 60.0,
            "options": {"expires": 60},
        },
        "diagnosis.forget_cells": {
            "task": "fleetwatch.diagnosis.tasks.forget_cells",
            "schedule": 3600.0,
        },
        "diagnosis.apply_retention": {
            "task": "fleetwatch.diagnosis.tasks.apply_retention",
            "schedule": 3600.0,
        },
        "diagnosis.measure_fixes": {
            "task": "fleetwatch.diagnosis.tasks.measure_fixes",
            "schedule": 6 * 3600.0,
        },
        "alerts.evaluate": {
            "task": "fleetwatch.alerts.tasks.evaluate",
            "schedule": 60.0,
            "options": {"expires": 120},
        },
        "notify.deliver_due": {
            "task": "fleetwatch.notify.tasks.deliver_due",
            "schedule": 15.0,
            "options": {"expires": 60},
        },
        "notify.prune_deliveries": {
            "task": "fleetwatch.notify.tasks.prune_deliveries",
            "schedule": 3600.0,
        },
        "reports.weekly_digest": {
            "task": "fleetwatch.reports.tasks.weekly_digest",
            "schedule": 3600.0,
        },
        "reports.ask_for_last_month": {
            "task": "fleetwatch.reports.tasks.ask_for_last_month",
            "schedule": 3600.0,
        },
        "reports.compute": {
            "task": "fleetwatch.reports.tasks.compute",
            "schedule": 15.0,
            "options": {"expires": 60},
        },
    },
)


@worker_process_init.connect  # type: ignore[untyped-decorator]
def forget_the_parents_pool(**_: object) -> None:
    """A forked worker process opens connections of its own: two processes on one socket would mix
    their answers.
    """
    for connection in connections.all(initialized_only=True):
        if isinstance(connection, DatabaseWrapper):
            connection.close_pool()


@worker_ready.connect  # type: ignore[untyped-decorator]
def say_that_the_worker_lives(**_: object) -> None:
    """Beat asks for the first time after a whole interval: /readyz need not wait so long."""
    app.send_task("fleetwatch.operations.tasks.beat_worker", expires=30)
