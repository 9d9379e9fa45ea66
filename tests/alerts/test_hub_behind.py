"""FleetWatch itself: work that is not done, a door that is shut, agents of which none is heard."""

from datetime import timedelta

import pytest

from fleetwatch.alerts.breach import stored_breach
from fleetwatch.alerts.messaging import announcing
from fleetwatch.alerts.models import Incident
from fleetwatch.inventory.models import Node
from fleetwatch.notify.models import Delivery
from fleetwatch.notify.services import create_channel
from fleetwatch.operations.models import JobRun
from tests.alerts.factories import a_rule, an_open_door, at, ms
from tests.dashboard import factories

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _rule():
    a_rule(name="FleetWatch behind", condition="hub_behind", minutes=15)


def ran_well(minute: float, *, name: str = "ledger.post", ok: bool = True) -> None:
    """A run that ended in that minute."""
    moments = {"started_at": at(minute) - timedelta(seconds=1), "finished_at": at(minute)}
    JobRun.objects.create(name=name, ok=ok, **moments)


def states(minute: float, *, door: float | None = None) -> list[tuple[str, str]]:
    an_open_door(minute if door is None else door)
    announcing.run(at(minute))
    return list(Incident.objects.order_by("pk").values_list("subject", "state"))


def test_work_that_was_not_done_for_as_long_as_the_rule_says():
    ran_well(0)

    assert states(14.9) == [("ledger.post", "pending")]
    assert states(15) == states(15) == [("ledger.post", "firing")]
    breach = stored_breach(Incident.objects.get().facts)
    assert breach.title == "FleetWatch is behind · posting to the ledger"
    assert breach.path == "/status"


def test_runs_that_fail_do_no_work():
    ran_well(0)
    for minute in range(1, 20):
        ran_well(minute, ok=False)

    assert states(20) == [("ledger.post", "firing")]


@pytest.mark.parametrize(("failed", "seen"), [(14, ["pending"]), (15, ["firing"])])
def test_an_evaluation_of_which_each_run_fails_is_behind(failed, seen):
    ran_well(0, name="alerts.evaluate")
    for minute in range(1, failed + 1):
        ran_well(minute, name="alerts.evaluate", ok=False)

    assert states(failed) == [("alerts.evaluate", state) for state in seen]
    breach = stored_breach(Incident.objects.get().facts)
    assert breach.title == "FleetWatch is behind · evaluation of rules"

    ran_well(failed + 1, name="alerts.evaluate")
    assert [state for _, state in states(failed + 2)] in ([], ["resolved"])


def test_an_evaluation_that_did_not_run_while_the_hub_was_down_is_not_behind():
    ran_well(0, name="alerts.evaluate")

    assert states(120) == []

    ran_well(120, name="alerts.evaluate")
    assert states(121) == []


def test_what_runs_each_few_minutes_is_in_time():
    for minute in range(0, 60, 5):
        ran_well(minute)

    assert states(59) == []


def test_it_is_over_when_the_work_is_done_again():
    ran_well(0)
    states(20)

    ran_well(21)

    assert states(22) == [("ledger.post", "resolved")]
    assert Incident.objects.get().ended_ms == ms(21)


def test_before_the_first_run_nobody_knows():
    assert states(60) == []


def test_a_shut_door_is_told_and_no_node_is_accused():
    factories.gpu(factories.node(last_ms=ms(0), last_received_at=at(0)), now=at(0))

    assert states(20, door=5) == [("door", "firing")]
    assert stored_breach(Incident.objects.get().facts).what.startswith("The hub took no batches")


def test_a_door_that_opens_again_ends_it():
    states(20, door=5)

    an_open_door(21, since=20.5)
    announcing.run(at(21))

    assert [each.state for each in Incident.objects.all()] == ["resolved"]


@pytest.mark.parametrize(("nodes", "state"), [(2, []), (3, [("agents", "firing")])])
def test_many_nodes_unheard_at_once_are_the_hubs(nodes, state):
    for place in range(nodes):
        node = factories.node(f"node-{place}", last_ms=ms(0), last_received_at=at(place / 60))
        factories.gpu(node, now=at(0))

    assert states(20) == state


def test_one_node_that_is_heard_ends_it():
    for place in range(3):
        node = factories.node(f"node-{place}", last_ms=ms(0), last_received_at=at(0))
        factories.gpu(node, now=at(0))
    states(20)

    Node.objects.filter(name="node-0").update(last_ms=ms(21), last_received_at=at(21))

    assert states(21) == [("agents", "resolved")]


def test_it_speaks_of_no_dollars():
    create_channel("slack", "ops", {"webhook_url": "https://hooks.example/x"}, now=at(0))
    ran_well(0)

    states(20)
    ran_well(21)
    states(22)

    opened, resolved = (each.message for each in Delivery.objects.order_by("pk"))
    assert "Burning" not in dict(opened["fields"])
    assert "cost" not in resolved["title"]
