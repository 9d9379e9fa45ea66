"""A condition as a newcomer would write it: this file, and its name in conditions/__init__."""

from datetime import datetime
from decimal import Decimal

from fleetwatch.alerts.breach import Breach, Condition, Ended
from fleetwatch.inventory.models import Node
from fleetwatch.lib.intervals import to_ms
from fleetwatch.notify.message import one_line

HOUR_MS = 3_600_000


def breaches(letters: float, now: datetime) -> list[Breach]:
    """Nodes whose names have more letters than that, since an hour."""
    return [
        breach(node.name, letters, now) for node in Node.objects.all() if is_long(node, letters)
    ]


def ended(before: Breach, now: datetime) -> Ended | None:
    return Ended("it has a shorter name", before)


def is_long(node: Node, letters: float) -> bool:
    return len(node.name) > letters


def breach(name: str, letters: float, now: datetime) -> Breach:
    told = one_line(name, 60)
    return Breach(
        subject=name,
        kind="node",
        since_ms=to_ms(now) - HOUR_MS,
        until_ms=to_ms(now),
        word="long",
        tag="long name",
        title=f"long · {told}",
        where=told,
        what=f"Node {told} had a long name",
        had="It had been long",
        limit=f"longer than {letters:g} letters",
        usd_per_hour=Decimal("1.50"),
        cost_usd=Decimal("1.50"),
        lines=(("Letters", str(len(name))),),
        actions=("Fix: call it gpu-01.",),
        facts={"letters": len(name)},
    )


CONDITION = Condition(
    name="name_long",
    label="Name longer than",
    asks="Long from letters",
    unit="letters",
    low=1,
    high=300,
    breaches=breaches,
    ended=ended,
)
