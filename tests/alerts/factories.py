"""Rules, and GPUs whose runs say what they did, minute by minute from NINE."""

from datetime import UTC, datetime, timedelta

import msgspec

from fleetwatch.alerts.breach import Breach
from fleetwatch.alerts.models import Incident, Rule
from fleetwatch.alerts.selectors import IncidentView, views_of
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.models import Run
from fleetwatch.lib.intervals import to_ms
from fleetwatch.operations.models import Heartbeat
from tests import stored_runs

NINE = datetime(2026, 11, 20, 9, tzinfo=UTC)
MINUTE_MS = 60_000


def at(minutes: float) -> datetime:
    """So many minutes after nine."""
    return NINE + timedelta(minutes=minutes)


def ms(minutes: float) -> int:
    return to_ms(at(minutes))


def an_open_door(until: float, *, since: float = -60) -> None:
    """The hub takes batches from minute `since` to minute `until`."""
    fields = {"at": at(until), "since": at(since)}
    Heartbeat.objects.update_or_create(name="door", defaults=fields)


def a_rule(**fields) -> Rule:
    """A rule alone, which was watching already."""
    Rule.objects.all().delete()
    usual = {"name": "Job idle", "condition": "job_idle", "threshold": 0, "minutes": 30}
    return Rule.objects.create(**(usual | {"created_at": NINE, "evaluated_ms": ms(0)} | fields))


def an_incident(rule: Rule, subject: str, *, opened_at: datetime, **fields) -> Incident:
    """One that fires, as far as tests need to know it."""
    since_ms = to_ms(opened_at)
    usual = {"since_ms": since_ms, "fired_ms": since_ms, "until_ms": since_ms + MINUTE_MS}
    resolved_at = fields.get("resolved_at")
    if resolved_at is not None:
        usual |= {"ended_ms": to_ms(resolved_at), "state": "resolved"}
    moments = {"opened_at": opened_at, "updated_at": opened_at}
    fields["facts"] = a_breach(subject, since_ms) | fields.get("facts", {})
    return Incident.objects.create(rule=rule, subject=subject, **(usual | moments | fields))


def open_incidents() -> list[IncidentView]:
    """What fires or is acknowledged, the newest first."""
    rows = Incident.objects.filter(state__in=("firing", "acknowledged"))
    return views_of(rows.select_related("rule").order_by("-opened_at", "-pk"))


def a_breach(subject: str, since_ms: int) -> dict:
    """What is kept of a breach of a job."""
    breach = Breach(
        subject=subject,
        kind="job",
        since_ms=since_ms,
        until_ms=since_ms + MINUTE_MS,
        word="idle",
        tag="idle held",
        title=f"idle · {subject}",
        where="node-014",
        what="1 GPU did nothing",
        had="It had been idle",
        limit="idle for 30 min",
    )
    return msgspec.to_builtins(breach)


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
    run = Run(
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
    stored_runs.store(run)
    return run


def longer(run: Run, end: float) -> None:
    """The same run, seen up to minute `end`."""
    lasted = int(ms(end) - run.start_ms)
    run.end_ms, run.state_ms = ms(end), dict.fromkeys(run.state_ms, lasted)
    stored_runs.replace(run)
    run.node.last_ms = max(run.node.last_ms, ms(end))
    run.node.save(update_fields=["last_ms"])
