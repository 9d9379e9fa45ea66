"""Background work of costs."""

from datetime import datetime
from functools import partial

from celery import shared_task

from fleetwatch.costs import day_sums, node_places, owner_changes, services
from fleetwatch.costs.mapping import attribution
from fleetwatch.operations.services import run_alone

MAX_NODE_DAYS = 20_000  # of one run: some minutes


@shared_task(ignore_result=True)
def ensure_example_rates() -> None:
    run_alone("costs.ensure_example_rates", services.ensure_example_rates)


@shared_task(ignore_result=True)
def note_places() -> None:
    run_alone("costs.note_places", node_places.note_places)


@shared_task(ignore_result=True)
def sum_recent_days() -> None:
    def work(now: datetime) -> dict[str, int]:
        return day_sums.sum_days(now, MAX_NODE_DAYS, since=now - day_sums.RECENT)

    run_alone("costs.sum_recent_days", work, lock=day_sums.LOCK)


@shared_task(ignore_result=True)
def sum_all_days() -> None:
    work = partial(day_sums.refresh, limit=MAX_NODE_DAYS)
    run_alone("costs.sum_all_days", work, lock=day_sums.LOCK)


@shared_task(ignore_result=True)
def attribute_changed() -> None:
    run_alone("costs.attribute_changed", lambda _: attribution.attribute_changed())


@shared_task(ignore_result=True)
def forget_owner_changes() -> None:
    run_alone("costs.forget_owner_changes", owner_changes.forget)
