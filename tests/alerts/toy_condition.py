"""A condition as a newcomer would write it: this file, and its name in conditions/__init__."""

from collections.abc import Sequence
from decimal import Decimal

from fleetwatch.alerts.breach import Breach, Condition, Settings, Watch
from fleetwatch.alerts.episodes import End, Episode, Level, Measured, Span
from fleetwatch.inventory.models import Node
from fleetwatch.notify.message import one_line

HOUR_MS = 3_600_000


def measure(watch: Watch) -> Measured:
    """Nodes whose names have more letters than the threshold, for an hour."""
    spans = {
        node.name: [Span(watch.end_ms - HOUR_MS, watch.end_ms, level(node.name, watch))]
        for node in Node.objects.all()
    }
    ends = {name: End(watch.end_ms, "it has a shorter name") for name in watch.firing}
    return Measured(spans, {name: end for name, end in ends.items() if name not in spans})


def level(name: str, watch: Watch) -> Level:
    return Level.BREACH if len(name) > watch.settings.threshold else Level.CLEAR


def describe(episodes: Sequence[Episode], watch: Watch) -> list[Breach | None]:
    return [breach(episode, watch) for episode in episodes]


def breach(episode: Episode, watch: Watch) -> Breach:
    name = one_line(episode.subject, 60)
    return Breach(
        subject=episode.subject,
        kind="node",
        since_ms=episode.since_ms,
        until_ms=episode.until_ms,
        word="long",
        tag="long name",
        title=f"long · {name}",
        where=name,
        what=f"Node {name} had a long name",
        had="It had been long",
        limit=f"longer than {watch.settings.threshold:g} letters",
        usd_per_hour=Decimal("1.50"),
        cost_usd=Decimal("1.50"),
        lines=(("Letters", str(len(name))),),
        actions=("Fix: call it gpu-01.",),
        labels={"node": (episode.subject,)},
        facts={"letters": len(name)},
    )


CONDITION = Condition(
    name="name_long",
    label="Name longer than",
    sentence="Fires when a node's name is longer than {threshold} letters.",
    kind="node",
    unit="letters",
    low=1,
    high=300,
    usual=Settings(threshold=20, minutes=30),
    measure=measure,
    describe=describe,
)
