"""The clock of telemetry: sealing, partitions, retention."""

from celery import shared_task
from django.utils import timezone

from fleetwatch.operations.services import record_run, run_alone
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
    run_alone("telemetry.join", lambda now: joining.join_complete_spans(now, MAX_SPANS_PER_RUN))


@shared_task(ignore_result=True)
def refresh_recent_cells() -> None:
    run_alone("telemetry.refresh_recent_cells", matrices.refresh_recent)


@shared_task(ignore_result=True)
def keep_partitions() -> None:
    run_alone("telemetry.keep_partitions", partitions.keep)


@shared_task(ignore_result=True)
def apply_retention() -> None:
    run_alone("telemetry.apply_retention", retention.apply)
