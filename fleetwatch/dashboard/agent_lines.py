"""The agents of all nodes, each with its health in a word."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from fleetwatch.dashboard.selectors import machines
from fleetwatch.inventory import selectors as inventory
from fleetwatch.inventory.models import Node
from fleetwatch.jobs.selectors import JobSource, job_sources
from fleetwatch.lib.intervals import to_ms

LATE_AFTER_MS = 120_000  # four flushes of 30 s
SILENT_AFTER_MS = 600_000
NEVER = "never reported"
GONE = "gone"  # removed by hand, or elastic
SILENT = "silent"
LATE = "late"
OK = "ok"
# by a word of an address
HEALTHS = {"silent": SILENT, "late": LATE, "never": NEVER, "ok": OK, "gone": GONE}
_URGENCY = (SILENT, LATE, NEVER, OK, GONE)
_COLOURS = {OK: "good", SILENT: "bad", LATE: "warn"}


@dataclass(frozen=True, slots=True)
class Agent:
    """A node's agent: how long its data is behind, its `health` in a word, and its job sources that
    do not answer.
    """

    node: Node
    lag_ms: int | None
    health: str
    silent: list[JobSource]

    @property
    def colour(self) -> str:
        """Of its dot."""
        return _COLOURS.get(self.health, "")


def agents(now: datetime, broken: Collection[str] = ()) -> list[Agent]:
    """Silent ones first, of equal ones those whose job source does not answer, then those of the
    nodes of these names, which have a broken GPU.
    """
    sources = job_sources()
    departed = inventory.departed()
    now_ms = to_ms(now)
    lines = [
        _agent(node, sources.get(node.pk, []), now_ms, is_gone=node.pk in departed)
        for node in machines()
    ]
    return sorted(lines, key=partial(_urgency, broken=broken))


def agent_of(node: Node, now: datetime) -> Agent:
    """That of one node."""
    sources = job_sources([node.pk]).get(node.pk, [])
    is_gone = node.pk in inventory.departed()
    return _agent(node, sources, to_ms(now), is_gone=is_gone)


def silent_agents(now: datetime) -> int:
    """How many of them are silent."""
    heard_ms = to_ms(now) - SILENT_AFTER_MS
    return (
        inventory.hosts().filter(last_ms__lt=heard_ms).exclude(pk__in=inventory.departed()).count()
    )


def _agent(node: Node, sources: Sequence[JobSource], now_ms: int, *, is_gone: bool) -> Agent:
    silent = [source for source in sources if not source.is_ok]
    if node.last_ms is None:
        return Agent(node, None, NEVER, silent)
    lag_ms = max(0, now_ms - node.last_ms)
    if is_gone:
        return Agent(node, lag_ms, GONE, [])
    health = SILENT if lag_ms > SILENT_AFTER_MS else LATE if lag_ms > LATE_AFTER_MS else OK
    return Agent(node, lag_ms, health, silent)


def _urgency(agent: Agent, *, broken: Collection[str]) -> tuple[int, bool, bool, str]:
    name = agent.node.name
    return _URGENCY.index(agent.health), not agent.silent, name not in broken, name
