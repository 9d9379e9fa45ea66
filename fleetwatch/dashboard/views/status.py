"""Is FleetWatch itself healthy?"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.http import HttpRequest

from fleetwatch.dashboard import problems
from fleetwatch.dashboard.agent_lines import LATE, NEVER, OK, SILENT, Agent, agents
from fleetwatch.dashboard.broken_marks import BrokenMark, that_cannot_work
from fleetwatch.dashboard.fleet_health import overdue_hours, overdue_since
from fleetwatch.dashboard.hub_facts import hub_facts
from fleetwatch.dashboard.period import Period
from fleetwatch.dashboard.showing import Context, shows
from fleetwatch.dashboard.task_lines import task_lines
from fleetwatch.dashboard.worker_load import BEAT_LATE_S, worker_load
from fleetwatch.diagnosis.cause import Step
from fleetwatch.ingest.pressure import meaning, waiting_for
from fleetwatch.inventory import selectors as inventory
from fleetwatch.lib import replica
from fleetwatch.notify.selectors import failing_channels, waiting_deliveries
from fleetwatch.operations import disk
from fleetwatch.operations.selectors import process_kinds, recent_failures, rhythms, workers
from fleetwatch.telemetry import selectors as telemetry
from fleetwatch.telemetry.selectors import Depth

WORKER = "worker"
MAX_DISPUTED = 50
MAX_AGENTS = 25


@dataclass(frozen=True, slots=True)
class Queue:
    """Rows that wait for background work; `slug` is the word's in the glossary."""

    label: str
    count: int
    meaning: str
    slug: str = ""


@shows("dashboard/status.html", "status")
def status(_: HttpRequest, period: Period) -> Context:
    every = agents(period.now)
    depth = telemetry.depth(period.now)
    broken = _broken(period.now)
    return {
        **_agents(every),
        "lag_ms": _shortest_lag_ms(every),
        "broken": broken,
        "broken_of": Counter(mark.gpu.node.name for mark, _ in broken),
        "failing": failing_channels(),
        **_work(period.now),
        "failures": recent_failures(period.now - timedelta(days=1)),
        **_beats(period.now),
        "replica": _replica(),
        "queues": _queues(depth, period.now),
        "depth": depth,
        "late": telemetry.late(),
        "disputed": inventory.disputed()[:MAX_DISPUTED],
        "disk_trouble": disk.trouble(),
        "stored_bytes": depth.hot_bytes + depth.chunk_bytes,
    }


def _agents(every: Sequence[Agent]) -> Context:
    """The first ones, and how many there are that need somebody."""
    counts = Counter(agent.health for agent in every)
    return {
        "agents": every[:MAX_AGENTS],
        "agent_count": len(every),
        "is_all_ok": all(agent.health == OK and not agent.silent for agent in every),
        "not_ok": counts[LATE] + counts[SILENT],
        "never": counts[NEVER],
        "unanswered": sum(bool(agent.silent) for agent in every),
    }


def _broken(now: datetime) -> list[tuple[BrokenMark, Step | None]]:
    """The GPUs that can't work, and what each one's incident says to do first."""
    marks = that_cannot_work()
    steps = problems.first_steps([mark.gpu.uuid for mark in marks], now) if marks else {}
    return [(mark, steps.get(mark.gpu.uuid)) for mark in marks]


def _work(now: datetime) -> Context:
    """The tasks, those that failed of late apart, and the hub that they keep busy."""
    rhythm_of = rhythms(now)
    tasks = task_lines(now, rhythm_of)
    return {
        "hub": hub_facts(rhythm_of.values(), now),
        "tasks": tasks,
        "unwell": [task for task in tasks if not task.is_well],
        "well": [task for task in tasks if task.is_well],
    }


def _shortest_lag_ms(agents: Sequence[Agent]) -> int | None:
    """How far the newest data is behind; None before the first."""
    return min((agent.lag_ms for agent in agents if agent.lag_ms is not None), default=None)


def _replica() -> Context | None:
    """How far it is behind; None where pages have none to read."""
    return {"behind_s": replica.behind_s()} if replica.has_replica() else None


def _beats(now: datetime) -> Context:
    """Each process with whether it is in time, and whether background work keeps up."""
    beats = process_kinds()
    worker_at = next((beat.at for beat in beats if beat.name == WORKER), None)
    lives = [(beat, _is_live(beat.at, now)) for beat in beats]
    of_workers = [(host, at, _is_live(at, now)) for host, at in workers()]
    return {
        "workers": of_workers,
        "live_workers": sum(is_live for *_, is_live in of_workers),
        "beats": lives,
        "quiet_beats": [beat.name for beat, is_live in lives if not is_live],
        "load": worker_load(worker_at, overdue_since(now), now),
    }


def _is_live(at: datetime, now: datetime) -> bool:
    return (now - at).total_seconds() <= BEAT_LATE_S


def _queues(depth: Depth, now: datetime) -> list[Queue]:
    return [
        Queue(
            "Hours overdue",
            overdue_hours(now),
            "hours of nodes that are over and not in the figures yet; should be 0",
            "overdue",
        ),
        Queue(
            "Hours to post",
            depth.touched_hours,
            "hours of nodes whose figures are being worked out; the current hour always is",
            "post",
        ),
        Queue(
            "Hours to seal",
            depth.overdue_hours,
            "hours of nodes that are over and not packed for keeping yet",
            "seal",
        ),
        Queue("Batches to seal", depth.overdue_batches, meaning(waiting_for(now)), "hot"),
        Queue("Messages to deliver", waiting_deliveries(), "notifications, retries included"),
    ]
