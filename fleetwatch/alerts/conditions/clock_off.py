"""The condition clock_off: a node's clock differs from the hub's."""

from collections.abc import Sequence

from django.db.models import QuerySet

from fleetwatch.alerts.breach import BELOW, Breach, Condition, Settings, Watch
from fleetwatch.alerts.conditions.node_silent import MANY
from fleetwatch.alerts.episodes import Episode, Level, Measured, Span
from fleetwatch.inventory.models import Node
from fleetwatch.lib.intervals import from_ms, to_ms
from fleetwatch.notify.message import one_line

RIGHT = "its clock is right again"


def measure(watch: Watch) -> Measured:
    """How far off each node's clock is, as its newest batch said; where most of many are off, it is
    the hub's own clock.
    """
    nodes = list(_heard(watch))
    levels = {node.name: _level(node, watch.settings) for node in nodes}
    off = {name for name, level in levels.items() if level == Level.BREACH}
    if len(off) >= MANY and 2 * len(off) > len(nodes):
        return Measured({})
    spans = {
        node.name: [_span(node, watch, levels[node.name])]
        for node in nodes
        if node.name in off or node.name in watch.firing
    }
    return Measured(spans, cleared=RIGHT)


def _level(node: Node, settings: Settings) -> Level:
    off_s = abs(node.clock_offset_ms or 0) / 1000
    if off_s >= settings.threshold:
        return Level.BREACH
    return Level.CLEAR if off_s < settings.clear_at else Level.BETWEEN


def _heard(watch: Watch) -> QuerySet[Node]:
    """The nodes that told their clock in the period."""
    since = from_ms(watch.start_ms)
    rows = Node.objects.filter(clock_offset_ms__isnull=False, last_received_at__gt=since)
    return rows.only("name", "clock_offset_ms", "last_received_at")


def _span(node: Node, watch: Watch, level: Level) -> Span:
    """One batch is one look: it stands for as long as the rule asks."""
    heard_ms = to_ms(node.last_received_at) if node.last_received_at else watch.end_ms
    return Span(heard_ms - watch.settings.timing.duration_ms, heard_ms, level)


def describe(episodes: Sequence[Episode], watch: Watch) -> list[Breach | None]:
    """Of each episode how far off the clock is; None of a node that is gone."""
    rows = Node.objects.filter(name__in={each.subject for each in episodes})
    nodes = {node.name: node for node in rows}
    there = [(each, nodes.get(each.subject)) for each in episodes]
    return [None if node is None else _breach(each, node, watch) for each, node in there]


def _off(node: Node) -> str:
    ahead_s = -(node.clock_offset_ms or 0) / 1000
    return f"{abs(ahead_s):.1f} s {'ahead of' if ahead_s > 0 else 'behind'}"


def _breach(episode: Episode, node: Node, watch: Watch) -> Breach:
    name = one_line(node.name, 60)
    off = _off(node)
    return Breach(
        subject=node.name,
        kind="node",
        since_ms=episode.since_ms,
        until_ms=episode.until_ms,
        word="off",
        tag="clock off",
        title=f"clock off · {name} {off.removesuffix(' of')}",
        where=name,
        what=f"The clock of node {name} was {off} the hub's",
        does=f"The clock of node {name} is {off} the hub's",
        has=f"The clock of node {name} has been {off} the hub's",
        had="It had been off",
        limit=f"off ≥ {watch.settings.threshold:g} s",
        has_cost=False,
        lines=(("Clock", f"{off} the hub's"),),
        actions=("Fix: let NTP set the node's clock; whether it does so is seen by: timedatectl",),
        codes=("timedatectl",),
        labels={"node": (node.name,)},
        facts={"offset_ms": node.clock_offset_ms},
    )


CONDITION = Condition(
    name="clock_off",
    label="Clock off",
    sentence="Fires when a node's clock differs from the hub's by {threshold} seconds or more.",
    kind="node",
    unit="seconds",
    low=1,
    high=86_400,
    clears=BELOW,
    usual=Settings(threshold=30, minutes=1),
    measure=measure,
    describe=describe,
    is_on=True,
    every_minutes=5,
    no_history=(
        "Only the newest clock reading of each node is kept, so there is no history to test on."
    ),
)
