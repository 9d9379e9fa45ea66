"""Is FleetWatch itself healthy?"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.http import HttpRequest

from fleetwatch.dashboard.period import Period
from fleetwatch.dashboard.selectors import machines
from fleetwatch.dashboard.showing import Context, shows
from fleetwatch.ingest.pressure import REFUSED_FROM, meaning
from fleetwatch.inventory import selectors as inventory
from fleetwatch.inventory.models import Node
from fleetwatch.jobs.selectors import JobSource, job_sources
from fleetwatch.lib import replica
from fleetwatch.lib.intervals import to_ms
from fleetwatch.notify.selectors import waiting_deliveries
from fleetwatch.operations import disk
from fleetwatch.operations.models import Heartbeat
from fleetwatch.operations.selectors import latest_runs, recent_failures
from fleetwatch.telemetry import selectors as telemetry
from fleetwatch.telemetry.selectors import Depth

LATE_AFTER_MS = 120_000  # four flushes of 30 s
SILENT_AFTER_MS = 600_000
BEAT_LATE_S = 90
MAX_DISPUTED = 50
NEVER = "never reported"
GONE = "gone"  # removed by hand, or elastic


@dataclass(frozen=True, slots=True)
class Agent:
    """A node's agent: how long its data is behind, its `health` in a word, and its job sources that
    do not answer.
    """

    node: Node
    lag_ms: int | None
    health: str
    silent: list[JobSource]


@dataclass(frozen=True, slots=True)
class Queue:
    """Rows that wait for background work."""

    label: str
    count: int
    meaning: str


@shows("dashboard/status.html", "status")
def status(_: HttpRequest, period: Period) -> Context:
    agents = sorted(_agents(period), key=_urgency)
    depth = telemetry.depth(period.now)
    return {
        "agents": agents,
        "not_ok": sum(agent.health in ("late", "silent") for agent in agents),
        "never": sum(agent.health == NEVER for agent in agents),
        "silent": sum(bool(agent.silent) for agent in agents),
        "lag_ms": _shortest_lag_ms(agents),
        "runs": latest_runs(),
        "failures": recent_failures(period.now - timedelta(days=1)),
        "beats": _beats(period.now),
        "replica": _replica(),
        "queues": _queues(depth, period.now),
        "depth": depth,
        "late": telemetry.late(),
        "disputed": inventory.disputed()[:MAX_DISPUTED],
        "disk_trouble": disk.trouble(),
        "stored_bytes": depth.hot_bytes + depth.chunk_bytes,
    }


def _shortest_lag_ms(agents: Sequence[Agent]) -> int | None:
    """How far the newest data is behind; None before the first."""
    return min((agent.lag_ms for agent in agents if agent.lag_ms is not None), default=None)


def _replica() -> Context | None:
    """How far it is behind; None where pages have none to read."""
    return {"behind_s": replica.behind_s()} if replica.has_replica() else None


def _beats(now: datetime) -> list[tuple[Heartbeat, bool]]:
    """Each with whether it is in time."""
    return [
        (beat, (now - beat.at).total_seconds() <= BEAT_LATE_S)
        for beat in Heartbeat.objects.order_by("name")
    ]


def _agents(period: Period) -> list[Agent]:
    sources = job_sources()
    departed = inventory.departed()
    now_ms = to_ms(period.now)
    return [
        _agent(node, sources.get(node.pk, []), now_ms, is_gone=node.pk in departed)
        for node in machines()
    ]


def _agent(node: Node, sources: Sequence[JobSource], now_ms: int, *, is_gone: bool) -> Agent:
    silent = [source for source in sources if not source.is_ok]
    if node.last_ms is None:
        return Agent(node, None, NEVER, silent)
    lag_ms = max(0, now_ms - node.last_ms)
    if is_gone:
        return Agent(node, lag_ms, GONE, [])
    health = "silent" if lag_ms > SILENT_AFTER_MS else "late" if lag_ms > LATE_AFTER_MS else "ok"
    return Agent(node, lag_ms, health, silent)


def _urgency(agent: Agent) -> tuple[int, bool, str]:
    """Silent agents first, of equal ones those whose job source does not answer."""
    return (
        -(GONE, "ok", NEVER, "late", "silent").index(agent.health),
        not agent.silent,
        agent.node.name,
    )


def _queues(depth: Depth, now: datetime) -> list[Queue]:
    overdue = telemetry.overdue_batches(now, limit=REFUSED_FROM)
    return [
        Queue("Hours to post", depth.touched_hours, "node-hours whose ledger changes"),
        Queue("Hours to seal", depth.overdue_hours, "closed node-hours still in hot batches"),
        Queue("Batches to seal", overdue, meaning(overdue)),
        Queue("Messages to deliver", waiting_deliveries(), "retries included"),
    ]
