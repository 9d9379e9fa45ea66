"""The clock of telemetry: sealing, partitions, retention."""

from celery import shared_task
from django.utils import timezone

from fleetwatch.lib.sql import advisory_lock
from fleetwatch.operations.services import record_run
from fleetwatch.telemetry import join as joining
from fleetwatch.telemetry import matrices, partitions, retention
from fleetwatch.telemetry import seal as sealing

# A node's hour takes about 20 ms: a run ends well within its minute and the next goes on.
MAX_HOURS_PER_RUN = 1_000
MAX_SPANS_PER_RUN = 500


@shared_task(ignore_result=True)
def seal() -> None:
    """No lock for the whole: workers share the nodes between them."""
    with record_run("telemetry.seal") as did:
        did.update(sealing.seal_closed_hours(timezone.now(), MAX_HOURS_PER_RUN))


@shared_task(ignore_result=True)
def join() -> None:
    with advisory_lock("telemetry.join") as held, record_run("telemetry.join") as did:
        did.update(
            joining.join_complete_spans(timezone.now(), MAX_SPANS_PER_RUN)
            if held
            else {"skipped": 1}
        )


@shared_task(ignore_result=True)
def refresh_recent_cells() -> None:
    with (
        advisory_lock("telemetry.refresh_recent_cells") as held,
        record_run("telemetry.refresh_recent_cells") as did,
    ):
        did.update(matrices.refresh_recent(timezone.now()) if held else {"skipped": 1})


@shared_task(ignore_result=True)
def keep_partitions() -> None:
    with (
        advisory_lock("telemetry.keep_partitions") as held,
        record_run("telemetry.keep_partitions") as did,
    ):
        did.update(partitions.keep(timezone.now()) if held else {"skipped": 1})


@shared_task(ignore_result=True)
def apply_retention() -> None:
    with (
        advisory_lock("telemetry.apply_retention") as held,
        record_run("telemetry.apply_retention") as did,
    ):
        did.update(retention.apply(timezone.now()) if held else {"skipped": 1})
