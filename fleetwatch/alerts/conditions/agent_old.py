"""The condition agent_old: nodes run an agent that is older than the one that the hub hands out."""

from collections import defaultdict
from collections.abc import Sequence

from fleetwatch.alerts.breach import Breach, Condition, Settings, Watch
from fleetwatch.alerts.episodes import End, Episode, Level, Measured, Span
from fleetwatch.ingest import agent_package
from fleetwatch.inventory.agent_versions import is_older
from fleetwatch.inventory.models import Node
from fleetwatch.lib.intervals import from_ms
from fleetwatch.notify.message import one_line

UPGRADED = "no node runs it any more"
NAMED = 10


def measure(watch: Watch) -> Measured:
    """By version the nodes that were heard in the period and run an older one; since when the first
    of these agents runs is when it began.
    """
    since = {version: min(map(_begun_ms, nodes)) for version, nodes in _old(watch).items()}
    spans = {
        version: [Span(max(begun_ms, watch.start_ms), watch.end_ms, Level.BREACH)]
        for version, begun_ms in since.items()
        if begun_ms < watch.end_ms
    }
    ends = {name: End(watch.end_ms, UPGRADED) for name in watch.firing if name not in spans}
    return Measured(spans, ends if _heard(watch) else {})


def _heard(watch: Watch) -> list[Node]:
    """The nodes that were heard in the period: of others nobody knows what they run."""
    rows = Node.objects.filter(last_received_at__gt=from_ms(watch.start_ms))
    return list(rows.only("name", "agent", "facts_order").order_by("name"))


def _old(watch: Watch) -> dict[str, list[Node]]:
    hub = agent_package.version()
    old: dict[str, list[Node]] = defaultdict(list)
    for node in _heard(watch):
        version = node.agent.get("version")
        if is_older(version, hub):
            old[str(version)].append(node)
    return old


def _begun_ms(node: Node) -> int:
    """When the node began its boot; its agent runs since then at the earliest."""
    return int(node.facts_order[0]) if node.facts_order else 0


def describe(episodes: Sequence[Episode], watch: Watch) -> list[Breach | None]:
    """Of each episode which nodes run that version; None where none does."""
    old = _old(watch)
    there = [(each, old.get(each.subject)) for each in episodes]
    return [_breach(each, nodes, watch) if nodes else None for each, nodes in there]


def _names(nodes: Sequence[Node]) -> str:
    names = ", ".join(one_line(node.name, 40) for node in nodes[:NAMED])
    more = len(nodes) - NAMED
    return f"{names} and {more} more" if more > 0 else names


def _breach(episode: Episode, nodes: Sequence[Node], watch: Watch) -> Breach:
    count = len(nodes)
    run = f"{count} node{'s' * (count > 1)}"
    hub = agent_package.version()
    agent = f"agent {episode.subject} (the hub hands out {hub})"
    return Breach(
        subject=episode.subject,
        kind="agent",
        address="/status",
        since_ms=episode.since_ms,
        until_ms=episode.until_ms,
        word="old",
        tag="old agent",
        title=f"old agent · {episode.subject} on {run}",
        where=run,
        what=f"{run} ran {agent}",
        has=f"{run} {'has' if count == 1 else 'have'} run {agent}",
        had="They had run it",
        limit=f"older than {hub}",
        name=run,
        has_cost=False,
        lines=(("Nodes", _names(nodes)),),
        actions=("Fix: run the line of the node's page that upgrades its agent on each of them.",),
        labels={"node": tuple(node.name for node in nodes)},
        facts={"nodes": count, "hub_version": hub},
    )


CONDITION = Condition(
    name="agent_old",
    label="Agent old",
    sentence="Fires when nodes run an agent that is older than the one that the hub hands out.",
    kind="agent",
    unit="",
    low=0,
    high=0,
    usual=Settings(threshold=0, minutes=10),
    measure=measure,
    describe=describe,
    severity="info",
    every_minutes=60,
    no_history=(
        "Only the newest agent version of each node is kept, so there is no history to test on."
    ),
)
