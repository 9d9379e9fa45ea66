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

from fleetwatch.lib import allocator
from fleetwatch.operations import disk

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fleetwatch.settings")

# `make up` works as root too; the warning is about pickled messages, and ours are JSON
warnings.filterwarnings("ignore", category=SecurityWarning)

# Task -> seconds from one to the next, and after how many one that waits is stale (None: never).
EVERY: dict[str, tuple[int, int | None]] = {
    "ledger.post": (15, 60),
    "ledger.learn_idle_power": (600, 600),
    "ledger.apply_retention": (3600, None),
    "ledger.refresh_state_days": (300, 300),
    "operations.beat_worker": (10, 30),
    "accounts.ask_directory": (3600, None),
    "ingest.retire_silent": (3600, None),
    "ingest.believe_moves": (60, 60),
    "ingest.bill_silent": (60, 60),
    "operations.prune_runs": (3600, None),
    "telemetry.seal": (60, 300),
    "telemetry.join": (300, 300),
    "telemetry.refresh_recent_cells": (60, 60),
    "telemetry.keep_partitions": (600, None),
    # before anything that adds rows: `post` and the like wait while it has something to do
    "stack.make_room": (30, 30),
    "telemetry.apply_retention": (3600, None),
    "costs.ensure_example_rates": (60, None),
    "costs.note_places": (60, 60),
    # before a new job's first time is posted: posting runs as often
    "costs.attribute_changed": (15, 60),
    "costs.forget_owner_changes": (3600, None),
    "costs.sum_recent_days": (60, 60),
    "costs.sum_all_days": (3600, None),
    "budgets.refresh": (300, 300),
    "diagnosis.diagnose": (60, 60),
    "diagnosis.forget_cells": (3600, None),
    "diagnosis.apply_retention": (3600, None),
    "diagnosis.measure_fixes": (6 * 3600, None),
    "alerts.evaluate": (60, 120),
    "alerts.try_rules": (15, 60),
    "actions.advance": (60, 120),
    "actions.try_policies": (15, 60),
    "finance.advance_trials": (15, 60),
    "notify.deliver_due": (15, 60),
    "notify.prune_deliveries": (3600, None),
    "reports.weekly_digest": (900, 900),
    "reports.ask_for_last_month": (3600, None),
    "reports.send_statements": (900, None),
    "reports.compute": (15, 60),
    "demo.keep_going": (15, 60),
}
# Several may run at once, for minutes while history comes in: what else is due goes first, or would
# expire before its turn.
IN_NO_HURRY = "ledger.post"
LAST = 9  # of the priorities on Redis, where 0 goes first and is what a task without one has

log = structlog.get_logger(__name__)


def _task(name: str) -> str:
    """The task as Celery calls it: room.task is a function of the room's tasks.py."""
    room, _, task = name.partition(".")
    return f"fleetwatch.{room}.tasks.{task}"


# They only add: while the disk is short of room they wait, and what they are to do waits in rows.
WAITING_FOR_ROOM = {
    _task("ledger.post"),
    _task("ledger.refresh_state_days"),
    _task("telemetry.join"),
    _task("telemetry.refresh_recent_cells"),
    _task("costs.sum_recent_days"),
    _task("costs.sum_all_days"),
    _task("diagnosis.diagnose"),
    _task("reports.compute"),
}


class ThriftyTask(Task):  # type: ignore[misc]  # celery brings no types
    """A task that knows whether there is room for what it adds."""

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        if self.name in WAITING_FOR_ROOM and disk.is_short():
            log.warning("task waits for room on the disk", name=self.name)
            return None
        return super().__call__(*args, **keywords)


def _entry(name: str) -> dict[str, Any]:
    every_s, stale_s = EVERY[name]
    options = {"expires": stale_s} if stale_s else {}
    if name == IN_NO_HURRY:
        options["priority"] = LAST
    return {"task": _task(name), "schedule": every_s, "options": options}


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
    broker_connection_retry_on_startup=True,
    timezone="UTC",
    beat_schedule={name: _entry(name) for name in EVERY},
)


@worker_process_init.connect  # type: ignore[untyped-decorator]
def forget_the_parents_pool(**_: object) -> None:
    """A forked worker process opens connections of its own: two processes on one socket would mix
    their answers.
    """
    for connection in connections.all(initialized_only=True):
        if isinstance(connection, DatabaseWrapper):
            connection.close_pool()


@worker_process_init.connect  # type: ignore[untyped-decorator]
def settle_memory(**_: object) -> None:
    allocator.keep_freed()
    allocator.spare_loaded()


@worker_ready.connect  # type: ignore[untyped-decorator]
def say_that_the_worker_lives(**_: object) -> None:
    """Beat asks for the first time after a whole interval: /readyz need not wait so long."""
    app.send_task("fleetwatch.operations.tasks.beat_worker", expires=30)
