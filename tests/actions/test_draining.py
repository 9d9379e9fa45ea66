"""From a GPU that can't work to the order that drains its node, and all that keeps it from being
given. The rule fires at minute 2, and the policy waits 60 after each warning: 62, and 122. Four
GPUs cost $2 an hour each.
"""

from dataclasses import replace
from decimal import Decimal

import pytest
from django.core.exceptions import PermissionDenied

from fleetwatch.accounts.models import AuditEntry, User
from fleetwatch.actions.action_policies import add_policy, set_policy, terms_of_policy
from fleetwatch.actions.keeping import keep
from fleetwatch.actions.models import Action
from fleetwatch.alerts.incidents.incident_actions import Action as Deed
from fleetwatch.alerts.incidents.incident_actions import act
from fleetwatch.alerts.models import Incident, Rule, Silence
from fleetwatch.alerts.selectors import timeline
from fleetwatch.costs.models import Rate
from fleetwatch.ingest.models import NodeOrder
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import SourceReport
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.notify.models import Channel, Delivery
from tests.actions.factories import an_operator, answer
from tests.actions.node_factories import (
    a_drain_policy,
    a_node,
    broken,
    drained,
    goes_on,
    hear,
    operators,
    walk,
)
from tests.alerts import people
from tests.alerts.factories import NINE, a_rule, at
from tests.costs.factories import a_rate
from tests.notify.factories import slack_channel

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("plain_static_files")]


def a_broken_node() -> list[GPU]:
    """Of which the GPU 0 is broken, and the operators hear."""
    operators()
    gpus = a_node()
    broken(gpus[0])
    return gpus


def the_incident() -> Incident:
    return Incident.objects.get()


def test_a_node_is_drained_after_two_warnings_and_the_time_between():
    a_drain_policy()
    gpu, *_ = a_broken_node()

    did = walk(1.9, 2, 61.9, 62, 121.9, 122, 123)

    assert did == [{}, {"warned": 1}, {}, {"warned_again": 1}, {}, {"acted": 1}, {}]
    order = NodeOrder.objects.get()
    assert (order.node.name, order.kind, order.scheduler, order.job, order.gpus) == (
        "gpu-07", "drain_node", "slurm", "", [gpu.uuid]
    )  # fmt: skip
    assert order.reason == f"FleetWatch incident {the_incident().pk}: GPU 0 XID 79"
    ladder = Action.objects.get()
    assert (ladder.subject, ladder.gpus, ladder.usd_per_hour) == ("gpu-07", 4, Decimal(8))
    assert (ladder.person, ladder.team) == (None, None)


def test_who_runs_the_fleet_is_warned_where_the_incident_goes():
    a_drain_policy()
    a_broken_node()

    walk(2, 62)

    warned, again = Delivery.objects.filter(thread__startswith="action/").order_by("pk")
    assert {warned.channel.name, again.channel.name} == {"ops"}
    assert warned.message["title"].startswith(
        "node with a broken GPU will be drained from 11:02 UTC on · gpu-07 GPU 0"
    )
    assert again.message["title"].startswith("last warning · node with a broken GPU")
    # who keeps it logs in: the link of a channel would be everybody's
    assert [button["action"] for button in warned.message["buttons"]] == ["open"]
    assert "jobs run to their end" in warned.message["text"]


def test_every_channel_that_was_told_must_have_taken_the_warning():
    policy = a_drain_policy()
    policy.rule.channels.set([slack_channel("https://a.example", name="a"), people.webhook("b")])
    broken(a_node()[0])
    assert goes_on(2) == {"warned": 1}
    first = Delivery.objects.filter(key__endswith="/warned", key__startswith="action/")
    assert sorted(first.values_list("channel__name", flat=True)) == ["a", "b"]

    first.filter(channel__name="b").update(state="failed", sent_at=None)
    assert goes_on(90) == {}

    first.filter(channel__name="b").update(state="sent", sent_at=at(90))
    assert walk(149.9, 150) == [{}, {"warned_again": 1}]


def test_each_step_is_in_the_incidents_history_and_the_audit_log():
    a_drain_policy()
    gpu, *_ = a_broken_node()

    walk(2, 62, 122)
    answer(gpu.node, NodeOrder.objects.get().key, "done: drain_node gpu-07", 122.5)
    assert walk(123, 600) == [{"done": 1}, {}]

    texts = [event.text for event in timeline(the_incident()) if event.kind == "action"]
    assert texts == [
        "who runs the fleet is warned",
        "who runs the fleet is warned again",
        "gpu-07 is asked: to drain the node",
        "Done: drain_node gpu-07",
    ]
    rows = AuditEntry.objects.filter(action__startswith="action.")
    assert {row.subject for row in rows} == {"gpu-07"}
    told = Delivery.objects.get(key__endswith="/done")
    assert told.channel.name == "ops"
    assert told.message["title"] == "node with a broken GPU drained · gpu-07 GPU 0"
    assert told.message["summary"] == "Node gpu-07: drain_node gpu-07."


def test_a_node_is_drained_once_for_an_incident():
    a_drain_policy()
    gpu, *_ = a_broken_node()
    walk(2, 62, 122)
    answer(gpu.node, NodeOrder.objects.get().key, "refused: a GPU of the order works", 122.5)

    walk(123, 300, 400, 500)

    assert NodeOrder.objects.count() == 1
    assert Action.objects.get().state == "refused"


def test_a_dry_run_asks_for_a_trial_and_warns_nobody():
    a_drain_policy(dry_run_until=at(10_000))
    a_broken_node()

    walk(2, 62, 122)

    assert NodeOrder.objects.get().is_dry_run
    assert not Delivery.objects.filter(thread__startswith="action/").exists()


def test_telemetry_that_is_missing_drains_nothing():
    a_drain_policy()
    a_broken_node()
    walk(2, 62)

    assert goes_on(122, is_heard=False) == {}
    assert goes_on(300, is_heard=False) == {}
    assert not NodeOrder.objects.exists()


def test_telemetry_of_five_minutes_ago_is_believed_and_older_waits():
    a_drain_policy()
    a_broken_node()
    walk(2, 62)

    hear(122)
    assert goes_on(127.1, is_heard=False) == {}
    hear(122.2)
    assert goes_on(127.2, is_heard=False) == {"acted": 1}


def test_a_gpu_that_worked_since_the_warning_begins_anew():
    a_drain_policy(a_rule(name="GPU fault", condition="gpu_fault", minutes=2, clear_minutes=60))
    gpu, *_ = a_broken_node()
    walk(2)
    broken(gpu, (0, 30, "xid_79"), (31, None, "xid_79"))

    assert walk(62)[0] == {"ended": 1}
    assert Action.objects.get().result == (
        "the GPU worked, or was not seen, since its node was warned of"
    )
    assert walk(121.9, 122) == [{}, {"warned": 1}]


def test_a_gpu_that_works_again_ends_the_ladder():
    a_drain_policy()
    gpu, *_ = a_broken_node()
    walk(2, 62)
    broken(gpu, (0, 100, "xid_79"))

    assert walk(122)[0] == {"ended": 1}


@pytest.mark.parametrize("deed", ["ack", "snooze", "not_waste", "resolve"])
@pytest.mark.parametrize("minute", [2, 62])
def test_who_answers_ends_the_ladder(deed, minute):
    a_drain_policy()
    a_broken_node()
    walk(2, 62) if minute == 62 else walk(2)

    act(the_incident().pk, Deed(deed, reason="on it"), by=an_operator(), now=at(minute + 1))

    assert walk(minute + 1, 122, 300)[0] == {"ended": 1}
    assert not NodeOrder.objects.exists()


@pytest.mark.parametrize("kind", ["silence", "maintenance", "exemption"])
def test_what_is_silenced_between_two_looks_is_not_drained(kind):
    a_drain_policy()
    a_broken_node()
    walk(2, 62)
    Silence.objects.create(
        kind=kind, matchers=[{"label": "node", "values": ["gpu-07"]}], starts_at=at(121),
        ends_at=at(200), reason="new firmware", created_at=at(121)
    )  # fmt: skip

    assert walk(122)[0] == {"ended": 1}
    assert not NodeOrder.objects.exists()


def test_a_node_that_somebody_drained_is_left_alone_and_warned_of_anew_when_it_is_resumed():
    a_drain_policy()
    gpu, *_ = a_broken_node()
    walk(2)
    drained(gpu.node, 30)

    assert walk(31, 62, 300) == [{"ended": 1}, {}, {}]
    assert Action.objects.get().result == "its node is drained already"

    drained(gpu.node, 301, kind="resumed")
    assert walk(302, 361.9, 362) == [{"warned": 1}, {}, {"warned_again": 1}]


def test_what_its_agent_drained_is_no_reason_to_take_the_order_back():
    a_drain_policy()
    gpu, *_ = a_broken_node()
    walk(2, 62, 122)
    drained(gpu.node, 122.2)

    assert walk(123) == [{}]
    assert Action.objects.get().state == "ordered"


def test_two_broken_gpus_of_a_node_are_one_drain():
    a_drain_policy()
    gpu, other, *_ = a_broken_node()
    broken(other, (30, None, "gpu_lost"))
    walk(2, 32, 62, 92, 122)
    answer(gpu.node, NodeOrder.objects.get().key, "done: drain_node gpu-07", 122.5)
    drained(gpu.node, 122.2)

    walk(123, 152, 400)

    assert NodeOrder.objects.count() == 1
    assert set(Action.objects.values_list("state", "result")) == {
        ("done", "drain_node gpu-07"), ("ended", "its node is drained already")
    }  # fmt: skip


def test_a_node_whose_agent_never_told_of_slurm_is_left_to_a_webhook():
    a_drain_policy()
    a_broken_node()
    SourceReport.objects.update(kind="kubernetes")

    assert walk(2, 62, 122) == [{}] * 3


def test_a_webhook_is_called_with_the_node():
    hook = people.webhook("cordon")
    hook.kind = "webhook"
    hook.save()
    a_drain_policy(kind="webhook", channel=hook)
    gpu, *_ = a_broken_node()
    SourceReport.objects.update(kind="kubernetes")

    assert walk(2, 62, 122)[2] == {"acted": 1}

    assert not NodeOrder.objects.exists()
    call = Delivery.objects.get(key__endswith="/call")
    fields = dict(call.message["fields"])
    assert call.message["title"] == "drain node gpu-07"
    assert (fields["Action"], fields["Node"], fields["GPUs"]) == ("drain_node", "gpu-07", gpu.uuid)
    assert call.expires_at == at(132)


def test_without_a_rate_of_each_gpu_of_the_node_nothing_is_done():
    a_drain_policy()
    gpus = a_broken_node()
    Rate.objects.all().delete()
    for gpu in gpus[:3]:
        a_rate("2", only=gpu)
    assert walk(2, 62, 122) == [{}] * 3

    a_rate("2", only=gpus[3])
    assert walk(123) == [{"warned": 1}]


def test_without_anybody_who_hears_nothing_is_done():
    a_drain_policy()
    a_broken_node()
    Channel.objects.update(is_enabled=False)

    assert walk(2, 62, 122) == [{}] * 3


def test_a_node_that_its_rule_does_not_watch_is_left_alone():
    a_drain_policy()
    a_broken_node()
    walk(2)
    Rule.objects.update(matchers=[{"label": "node", "values": ["gpu-08"], "is_not": False}])

    assert walk(62)[0] == {"ended": 1}


@pytest.mark.parametrize(("most", "orders"), [("16", 2), ("15.999999", 1)])
def test_dollars_of_all_gpus_of_the_nodes_limit_it(most, orders):
    """Each node's four GPUs cost $8 an hour."""
    a_drain_policy(max_usd_per_hour=Decimal(most))
    a_broken_node()
    broken(a_node("gpu-08")[0])

    walk(2, 62, 122, 123)

    assert NodeOrder.objects.count() == orders


@pytest.mark.parametrize(("most", "orders"), [(2, 2), (1, 1)])
def test_nodes_an_hour_limit_it_and_the_next_follows_an_hour_later(most, orders):
    a_drain_policy(max_per_hour=most)
    a_broken_node()
    broken(a_node("gpu-08")[0])

    walk(2, 62, 122, 181.9)
    assert NodeOrder.objects.count() == orders

    walk(182.1)
    assert NodeOrder.objects.count() == 2


def test_who_runs_the_fleet_leaves_the_node_as_it_is():
    a_drain_policy()
    gpu, other, *_ = a_broken_node()
    broken(other, (10, None, "gpu_lost"))
    walk(2, 12)
    first = Action.objects.get(incident__subject=gpu.uuid)

    keep(first.pk, by=an_operator(), reason="a demo", now=at(30))

    walk(31, 62, 72, 122, 132)
    assert not NodeOrder.objects.exists()
    assert set(Action.objects.values_list("state", flat=True)) == {"kept", "ended"}


def test_what_breaks_after_it_was_left_as_it_is_is_news():
    a_drain_policy()
    _, other, *_ = a_broken_node()
    walk(2)
    keep(Action.objects.get().pk, by=an_operator(), reason="", now=at(30))
    broken(other, (40, None, "gpu_lost"))

    assert walk(42)[0] == {"warned": 1}
    assert Action.objects.latest("pk").incident.subject == other.uuid


def test_a_stranger_keeps_nothing():
    a_drain_policy()
    a_broken_node()
    walk(2)

    for role in ("engineer", "lead", "finance"):
        user = User.objects.create(username=role, role=role)
        with pytest.raises(PermissionDenied):
            keep(Action.objects.get().pk, by=user, reason="", now=at(3))
    assert Action.objects.get().state == "warned"


def test_a_node_policy_names_no_team_and_ends_no_job():
    ops = an_operator()
    rule = a_rule(name="GPU fault", condition="gpu_fault", minutes=2)

    with pytest.raises(RefusedFieldError, match="drain the node or call a webhook"):
        add_policy(rule, "stop_job", by=ops, now=NINE)
    policy = add_policy(rule, "drain_node", by=ops, now=NINE)
    with pytest.raises(RefusedFieldError, match="no team's"):
        set_policy(
            policy,
            replace(terms_of_policy(policy), teams=(people.team("nlp"),)),
            by=ops,
            now=NINE,
        )


def test_its_incidents_page_has_the_button_for_who_may_act(client):
    a_drain_policy()
    a_broken_node()
    walk(2)
    path = f"/incidents/{the_incident().pk}"

    client.force_login(an_operator())
    page = client.get(path).content.decode()
    assert "Leave the node as it is" in page
    done = client.post(f"{path}/keep", {"reason": "a demo"}, follow=True)

    assert "The node is left as it is" in done.content.decode()
    assert (Action.objects.get().state, Action.objects.get().result) == ("kept", "a demo")


def test_a_stranger_finds_no_button_and_presses_none(client):
    a_drain_policy()
    a_broken_node()
    walk(2)
    path = f"/incidents/{the_incident().pk}"
    client.force_login(User.objects.create(username="zoe", role="engineer"))

    assert "Leave the node as it is" not in client.get(path).content.decode()
    assert client.post(f"{path}/keep", {}).status_code in (403, 404)
    assert Action.objects.get().state == "warned"


def test_the_policys_page_speaks_of_nodes(client):
    rule = a_rule(name="GPU fault", condition="gpu_fault", minutes=2)
    client.force_login(an_operator())
    made = client.post("/alerts/actions/add", {"rule": rule.pk, "kind": "drain_node"})
    sent = {"first_wait_minutes": "30", "second_wait_minutes": "45", "max_per_hour": "2",
            "max_usd_per_hour": "40.5"}  # fmt: skip
    assert client.post(f"{made.url}/set", sent).status_code == 302
    client.post(f"{made.url}/switch_on")

    page = " ".join(client.get(f"{made.url}?days=30").content.decode().split())

    assert (
        "warns who runs the fleet, waits 30 min, warns again, waits 45 min, and drains the" in page
    )
    assert "2 nodes an hour at most" in page
    assert "every node that its rule watches" in page
    assert "--allow-actions drain_node" in page
    assert "0 nodes drained, 0" in page
    assert "of broken GPUs from then on" in page
    assert "Teams</legend>" not in page
