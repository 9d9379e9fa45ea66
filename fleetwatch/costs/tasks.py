"""Background work of costs."""

from celery import shared_task
from django.utils import timezone

from fleetwatch.costs import day_sums, node_places, services
from fleetwatch.costs.mapping import attribution
from fleetwatch.lib.sql import advisory_lock
from fleetwatch.operations.services import record_run

MAX_NODE_DAYS = 20_000  # of one run: some minutes


@shared_task(ignore_result=True)
def ensure_example_rates() -> None:
    with (
        advisory_lock("costs.ensure_example_rates") as held,
        record_run("costs.ensure_example_rates") as did,
    ):
        did.update(services.ensure_example_rates(timezone.now()) if held else {})


@shared_task(ignore_result=True)
def note_places() -> None:
    with advisory_lock("costs.note_places") as held, record_run("costs.note_places") as did:
        did.update(node_places.note_places(timezone.now()) if held else {})


@shared_task(ignore_result=True)
def sum_recent_days() -> None:
    with advisory_lock(day_sums.LOCK) as held, record_run("costs.sum_recent_days") as did:
        now = timezone.now()
        did.update(
            day_sums.sum_days(now, MAX_NODE_DAYS, since=now - day_sums.RECENT) if held else {}
        )


@shared_task(ignore_result=True)
def sum_all_days() -> None:
    with advisory_lock(day_sums.LOCK) as held, record_run("costs.sum_all_days") as did:
        did.update(day_sums.refresh(timezone.now(), MAX_NODE_DAYS) if held else {})


@shared_task(ignore_result=True)
def attribute_changed() -> None:
    with (
        advisory_lock("costs.attribute_changed") as held,
        record_run("costs.attribute_changed") as did,
    ):
        did.update(attribution.attribute_changed() if held else {})
