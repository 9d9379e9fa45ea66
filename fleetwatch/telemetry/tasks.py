"""The clock of telemetry: sealing, partitions, retention."""

import time
from collections import Counter
from collections.abc import Callable
from functools import partial

from celery import shared_task
from django.utils import timezone

from fleetwatch.operations.services import record_run, run_alone
from fleetwatch.telemetry import join as joining
from fleetwatch.telemetry import matrices, partitions, retention
from fleetwatch.telemetry import seal as sealing

HOURS_AT_ONCE = 1_000  # in twenty seconds
RUN_S = 40  # no more is begun then: a run ends within its minute and the next goes on
MAX_SPANS_PER_RUN = 500
WAIT_S = 2  # longer than the newest cells of some nodes take, which are drawn under the same lock


@shared_task(ignore_result=True)
def seal() -> None:
    """No lock for the whole: workers share the nodes between them."""
    with record_run("telemetry.seal") as did:
        did.update(_sealed(time.monotonic() + RUN_S))


def _sealed(until_s: float) -> Counter[str]:
    """What was sealed by then, or until nothing more could be."""
    did: Counter[str] = Counter()
    while True:
        seal_hours = partial(sealing.seal_closed_hours, timezone.now(), HOURS_AT_ONCE)
        more = _not_kept_out(seal_hours, "hours", until_s)
        did.update(more)
        if not more["hours"] or time.monotonic() >= until_s:
            return did


def _not_kept_out(work: Callable[[], dict[str, int]], done: str, until_s: float) -> Counter[str]:
    """What the work counted; where others had all of its nodes it is tried again until then, for
    they begin at the same second each minute.
    """
    while True:
        did = Counter(work())
        if did[done] or not did["skipped"] or time.monotonic() >= until_s:
            return did
        time.sleep(WAIT_S)


@shared_task(ignore_result=True)
def join() -> None:
    """As `seal`."""
    join_spans = partial(joining.join_complete_spans, timezone.now(), MAX_SPANS_PER_RUN)
    with record_run("telemetry.join") as did:
        did.update(_not_kept_out(join_spans, "spans", time.monotonic() + RUN_S))


@shared_task(ignore_result=True)
def refresh_recent_cells() -> None:
    """As `seal`: of a fleet that takes longer than a minute the next run begins meanwhile."""
    with record_run("telemetry.refresh_recent_cells") as did:
        did.update(matrices.refresh_recent(timezone.now()))


@shared_task(ignore_result=True)
def keep_partitions() -> None:
    run_alone("telemetry.keep_partitions", partitions.keep)


@shared_task(ignore_result=True)
def apply_retention() -> None:
    run_alone("telemetry.apply_retention", retention.apply)
