"""A node of which the hub hears nothing, by the hub's own clock."""

from decimal import Decimal

import pytest

from fleetwatch.alerts.breach import stored_breach
from fleetwatch.alerts.messaging import announcing
from fleetwatch.alerts.models import Incident
from fleetwatch.inventory.models import GPU, ElasticRule, Node
from fleetwatch.notify.models import Delivery
from fleetwatch.notify.services import create_channel
from fleetwatch.operations.models import Heartbeat
from tests.alerts.factories import a_rule, an_open_door, at, ms
from tests.dashboard import factories

pytestmark = pytest.mark.django_db
HOSTILE = "gpu-<b>\u202e*x*"


def a_node(name: str = "node-001", *, heard: float = 0, **fields) -> Node:
    """A node with a GPU, heard last at that minute."""
    usual = {"last_ms": ms(heard) - 15_000, "last_received_at": at(heard)}
    node = factories.node(name, **(usual | fields))
    factories.gpu(node, now=at(0))
    return node


def hear(node: Node, minute: float, *, late: float = 0) -> None:
    """A batch comes in that minute, of windows that ended `late` minutes before."""
    Node.objects.filter(pk=node.pk).update(last_ms=ms(minute - late), last_received_at=at(minute))


def states() -> list[tuple[str, str]]:
    return list(Incident.objects.order_by("pk").values_list("subject", "state"))


def run(minute: float, *, since: float = -60) -> list[tuple[str, str]]:
    """What is open after an evaluation in that minute, the door being open since then."""
    an_open_door(minute, since=since)
    announcing.run(at(minute))
    return states()


@pytest.fixture(autouse=True)
def _rule():
    a_rule(name="Node silent", condition="node_silent", minutes=10)


def test_a_node_is_silent_from_the_minute_on_that_the_rule_says():
    a_node()

    assert run(9.99) == [("node-001", "pending")]
    assert run(10) == [("node-001", "firing")]
    incident = Incident.objects.get()
    assert (incident.since_ms, incident.fired_ms) == (ms(0), ms(10))


def test_twice_changes_nothing():
    a_node()

    assert run(12) == run(12) == [("node-001", "firing")]


def test_an_agent_that_sends_as_seldom_as_it_may_is_not_silent():
    a_rule(name="Node silent", condition="node_silent", minutes=1)
    a_node()

    assert run(5) == []
    assert run(5.1) == [("node-001", "firing")]


def test_it_is_over_when_the_node_is_heard_again():
    node = a_node()
    run(12)

    hear(node, 12.5)

    assert run(13) == [("node-001", "resolved")]
    incident = Incident.objects.get()
    assert (incident.resolution, incident.ended_ms) == ("it reports again", ms(12.5))


def test_who_sends_an_old_queue_is_heard():
    node = a_node()
    run(12)

    hear(node, 13, late=8)

    assert run(13.5) == [("node-001", "resolved")]


def test_of_what_never_was_live_nobody_expects_a_word():
    a_node(last_ms=ms(-90))

    assert run(30) == []


def test_a_node_whose_gpus_are_no_capacity_any_more_is_not_missed():
    node = a_node()
    run(12)

    GPU.objects.filter(node=node).update(retired_ms=ms(0))

    assert run(13) == [("node-001", "resolved")]
    assert Incident.objects.get().resolution == "it is no longer part of the fleet"


def test_an_elastic_node_is_gone_and_not_silent():
    a_node("spot-7")
    a_node("node-001", heard=30)
    ElasticRule.objects.create(kind="name", pattern="spot-*")

    assert run(30) == []


def test_nobody_is_accused_while_the_hub_was_down():
    a_node()

    assert run(120, since=119) == []  # the web process came back a minute ago
    assert run(128.9, since=119) == [("node-001", "pending")]
    assert run(129, since=119) == [("node-001", "firing")]
    assert Incident.objects.get().since_ms == ms(119)


def test_nobody_is_accused_while_the_door_is_shut():
    a_node()
    an_open_door(10)

    announcing.run(at(30))
    assert states() == []

    Heartbeat.objects.all().delete()
    announcing.run(at(30))
    assert states() == []


def test_what_fires_goes_on_while_the_hub_is_down():
    a_node()
    run(12)

    announcing.run(at(60))

    assert states() == [("node-001", "firing")]
    assert Incident.objects.get().note == "Not known since 09:12 UTC whether it goes on."


def test_of_many_nodes_that_are_unheard_all_at_once_none_is_accused():
    for place in range(3):
        a_node(f"node-{place}")

    assert run(30) == []

    hear(Node.objects.get(name="node-0"), 30)
    assert run(30.5) == [("node-1", "firing"), ("node-2", "firing")]


def test_two_nodes_are_too_few_to_blame_the_hub():
    a_node("node-0")
    a_node("node-1")

    assert run(30) == [("node-0", "firing"), ("node-1", "firing")]


def test_it_says_what_it_costs_and_what_to_do():
    factories.rate("2.00")
    node = a_node(HOSTILE)
    factories.gpu(node, index=1, now=at(0))
    create_channel("slack", "ops", {"webhook_url": "https://hooks.example/x"}, now=at(0))

    run(30)

    breach = stored_breach(Incident.objects.get().facts)
    assert (breach.usd_per_hour, breach.cost_usd) == (Decimal(4), Decimal(2))
    assert breach.labels == {"node": (HOSTILE,), "model": ("H100 SXM",)}
    assert breach.path == "/nodes/gpu-%3Cb%3E%E2%80%AE%2Ax%2A"
    message = Delivery.objects.get().message
    assert message["title"] == "silent · gpu-<b>*x* (2 × H100 SXM) · since 09:00 UTC (30 m)"
    assert message["summary"] == ("Node gpu-<b>*x* with 2 × H100 SXM has sent nothing for 30 m.")
    assert ["So far", "$2.00"] in message["fields"]
    assert "systemctl status fleetwatch-agent" in message["text"]


def test_without_a_rate_its_cost_is_unknown():
    a_node()

    run(30)

    breach = stored_breach(Incident.objects.get().facts)
    assert (breach.usd_per_hour, breach.cost_usd) == (None, None)


def test_of_an_agent_that_was_stopped_it_says_so():
    a_node(agent={"stopping": True})

    run(30)

    breach = stored_breach(Incident.objects.get().facts)
    assert breach.actions[0].startswith("Fix: its agent was stopped in order")


@pytest.mark.usefixtures("plain_static_files")
def test_its_page_opens_and_says_what_to_do(client):
    a_node()
    run(10)
    client.force_login(factories.user())

    answer = client.get(f"/incidents/{Incident.objects.get().pk}")

    assert answer.status_code == 200
    assert "systemctl status" in answer.content.decode()
