"""Rules, and GPUs whose runs say what they did, minute by minute from NINE."""

from datetime import UTC, datetime, timedelta

from fleetwatch.alerts.models import Rule
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.models import Run
from fleetwatch.lib.intervals import to_ms

NINE = datetime(2026, 11, 20, 9, tzinfo=UTC)
MINUTE_MS = 60_000


def at(minutes: float) -> datetime:
    """So many minutes after nine."""
    return NINE + timedelta(minutes=minutes)


def ms(minutes: float) -> int:
    return to_ms(at(minutes))


def a_rule(**fields) -> Rule:
    Rule.objects.all().delete()
    return Rule.objects.create(
        **(
            {"name": "Job idle", "condition": "job_idle", "threshold": 30, "created_at": NINE}
            | fields
        )
    )


def ran(
    gpu: GPU,
    condition: str,
    start: float,
    end: float,
    *,
    job: Job | None = None,
    state: str | None = None,
    weight: float = 1.0,
    **fields,
) -> Run:
    """The GPU did this from minute `start` to minute `end`; the node's telemetry reaches at least
    that far.
    """
    usual = {"quiet": "idle", "active": "useful", "spinning": "stalled"}
    node = gpu.node
    if condition != "unobserved":
        node.last_ms = max(node.last_ms or 0, ms(end))
        node.save(update_fields=["last_ms"])
    lasted = int((end - start) * MINUTE_MS * weight)
    figures = {"memory_used_bytes_ms": lasted, "memory_used_bytes_sum": 40e9 * lasted}
    return Run.objects.create(
        node=node,
        gpu=gpu,
        job=job,
        condition=condition,
        start_ms=ms(start),
        end_ms=ms(end),
        **(
            {"state_ms": {state or usual.get(condition, condition): lasted}, "figures": figures}
            | fields
        ),
    )


def longer(run: Run, end: float) -> None:
    """The same run, seen up to minute `end`."""
    lasted = int(ms(end) - run.start_ms)
    run.end_ms, run.state_ms = ms(end), dict.fromkeys(run.state_ms, lasted)
    run.save(update_fields=["end_ms", "state_ms"])
    run.node.last_ms = max(run.node.last_ms, ms(end))
    run.node.save(update_fields=["last_ms"])
