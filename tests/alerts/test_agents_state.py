"""Clocks that are off, and agents that are older than the hub's, as newest batches told them."""

import pytest

from fleetwatch.alerts.breach import stored_breach
from fleetwatch.alerts.messaging import announcing
from fleetwatch.alerts.models import Incident, Rule
from fleetwatch.ingest import agent_package
from fleetwatch.inventory.models import Node
from tests.alerts.factories import a_rule, at, ms
from tests.dashboard import factories

pytestmark = pytest.mark.django_db


def a_node(name: str, *, heard: float = 0, **fields) -> Node:
    return factories.node(name, last_ms=ms(heard), last_received_at=at(heard), **fields)


def states(minute: float) -> list[tuple[str, str]]:
    announcing.run(at(minute))
    return list(Incident.objects.order_by("pk").values_list("subject", "state"))


def newest():
    return stored_breach(Incident.objects.latest("pk").facts)


@pytest.fixture
def clock_rule():
    return a_rule(
        name="Clock off", condition="clock_off", threshold=30, minutes=1, evaluated_ms=ms(-60)
    )


@pytest.mark.usefixtures("clock_rule")
@pytest.mark.parametrize(
    ("offset_ms", "off"),
    [(29_999, None), (30_000, "30.0 s behind"), (-45_500, "45.5 s ahead"), (None, None), (0, None)],
)
def test_a_clock_that_is_off_by_what_the_rule_says(offset_ms, off):
    a_node("node-<b>\n", clock_offset_ms=offset_ms)

    assert bool(states(0.5)) == bool(off)
    if off:
        assert newest().title == f"clock off · node-<b> {off}"
        assert not newest().has_cost


@pytest.mark.usefixtures("clock_rule")
def test_a_clock_that_is_right_again_ends_it():
    a_node("node-1", clock_offset_ms=60_000)
    states(0.5)

    Node.objects.update(clock_offset_ms=10, last_received_at=at(7))

    assert states(8) == [("node-1", "resolved")]


@pytest.mark.parametrize(("offset_ms", "state"), [(10_000, "firing"), (9_999, "resolved")])
def test_a_clock_is_right_again_below_the_clear_value(clock_rule, offset_ms, state):
    Rule.objects.filter(pk=clock_rule.pk).update(clear=10)
    a_node("node-1", clock_offset_ms=60_000)
    states(0.5)

    Node.objects.update(clock_offset_ms=offset_ms, last_received_at=at(7))

    assert states(8) == [("node-1", state)]


@pytest.mark.usefixtures("clock_rule")
def test_most_of_many_nodes_that_are_off_are_the_hubs_own_clock():
    for place in range(3):
        a_node(f"node-{place}", clock_offset_ms=60_000)

    assert states(0.5) == []

    for place in range(3, 6):
        a_node(f"node-{place}", clock_offset_ms=0, heard=5)
    Node.objects.update(last_received_at=at(6))
    assert len(states(6)) == 3


@pytest.mark.usefixtures("clock_rule")
def test_what_was_said_long_ago_is_no_clock_of_now():
    a_node("node-1", heard=-300, clock_offset_ms=60_000)

    assert states(1) == []


@pytest.fixture
def agent_rule():
    return a_rule(name="Agent old", condition="agent_old", minutes=10, evaluated_ms=ms(-60))


def running(version: object, *, booted: float = -600) -> dict:
    return {"agent": {"version": version}, "facts_order": [ms(booted), 1]}


@pytest.mark.usefixtures("agent_rule")
def test_nodes_of_one_old_version_are_one_incident():
    for place in range(12):
        a_node(f"node-{place:02}", **running("0.9.0"))
    a_node("node-new", **running(agent_package.version()))
    a_node("node-odd", **running("0.9.0-dirty"))

    assert states(1) == [("0.9.0", "firing")]
    breach = newest()
    assert breach.title == "old agent · 0.9.0 on 12 nodes"
    assert dict(breach.lines)["Nodes"].endswith("node-09 and 2 more")
    assert (breach.path, breach.has_cost) == ("/status", False)


@pytest.mark.usefixtures("agent_rule")
def test_it_is_over_when_no_node_runs_it():
    a_node("node-1", **running("0.9.0"))
    states(1)

    Node.objects.update(agent={"version": agent_package.version()}, last_received_at=at(61))

    assert states(62) == [("0.9.0", "resolved")]
    assert Incident.objects.get().resolution == "no node runs it any more"


@pytest.mark.usefixtures("agent_rule")
def test_nodes_that_are_not_heard_neither_fire_nor_end_it():
    a_node("node-1", **running("0.9.0"))
    states(1)

    assert states(300) == [("0.9.0", "firing")]
