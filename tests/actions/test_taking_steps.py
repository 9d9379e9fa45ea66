"""From a job that idles to the order that ends it, and everything that keeps it from being given."""

import threading
from decimal import Decimal

import pytest
from django.db import connection

from fleetwatch.accounts.models import AuditEntry
from fleetwatch.actions.keeping import keep
from fleetwatch.actions.models import Action, Policy
from fleetwatch.actions.taking_steps import advance
from fleetwatch.alerts.incidents.incident_actions import Action as Deed
from fleetwatch.alerts.incidents.incident_actions import act
from fleetwatch.alerts.messaging import announcing
from fleetwatch.alerts.models import Incident, Silence
from fleetwatch.alerts.selectors import timeline
from fleetwatch.ingest.models import NodeOrder
from fleetwatch.jobs.models import Job
from fleetwatch.lib.fences import PartlyDoneError
from fleetwatch.notify.models import Delivery
from tests.actions.factories import (
    a_policy,
    an_idle_job,
    an_operator,
    answer,
    deliver,
    goes_on,
    the_incident,
)
from tests.alerts import people
from tests.alerts.factories import at, longer, ran
from tests.costs.factories import a_gpu

pytestmark = pytest.mark.django_db


def walk(run, *minutes: float) -> list[dict[str, int]]:
    """What actions did at each of these minutes."""
    return [
        {name: count for name, count in goes_on(run, minute).items() if count} for minute in minutes
    ]


def test_a_job_is_ended_after_two_warnings_and_the_time_between():
    a_policy()
    run = an_idle_job()

    did = walk(run, 29, 31, 90.9, 91, 150.9, 151, 152)

    assert did == [{}, {"warned": 1}, {}, {"warned_again": 1}, {}, {"acted": 1}, {}]
    order = NodeOrder.objects.get()
    assert (order.node.name, order.kind, order.scheduler, order.job) == (
        "node-014", "stop_job", "slurm", "1"
    )  # fmt: skip
    assert order.gpus == [run.gpu.uuid]
    assert order.grace_ms == 30 * 60_000
    assert not order.is_dry_run
    ladder = Action.objects.get()
    assert (ladder.state, ladder.order_key, ladder.usd_per_hour) == (
        "ordered",
        order.key,
        Decimal(2),
    )


def test_the_longest_key_of_a_job_is_warned_of_ended_kept_and_told_whole(client):
    longest = "k" * 400 + "~123456789"  # 410 characters: 400 on the wire, and a number
    a_policy()
    run = an_idle_job(key=longest)

    assert walk(run, 31, 91, 151) == [{"warned": 1}, {"warned_again": 1}, {"acted": 1}]
    keep(Action.objects.get().pk, by=the_incident().person, reason="", now=at(152))

    client.force_login(an_operator())
    [row] = client.get("/api/v1/actions").json()["rows"]
    assert (row["subject"], row["state"]) == (longest, "kept")
    assert AuditEntry.objects.get(action="action.keep").subject == longest


def test_the_owner_is_warned_by_his_own_channel_with_a_link_that_keeps_it():
    a_policy()
    run = an_idle_job()

    walk(run, 31, 91)

    warned, again = Delivery.objects.filter(thread__startswith="action/").order_by("pk")
    assert (warned.address, again.address) == ("U0ANA", "U0ANA")
    assert "will be ended from 11:31" in warned.message["title"]
    assert again.message["title"].startswith("last warning · idle job will be ended from 11:31")
    assert warned.message["buttons"][0]["action"] == "keep"
    assert "/actions/keep/" in warned.message["buttons"][0]["url"]
    assert (warned.message["is_reply"], again.message["is_reply"]) == (False, True)


def test_each_step_is_in_the_incidents_history_and_the_audit_log():
    a_policy()
    run = an_idle_job()

    walk(run, 31, 91, 151)
    answer(run.node, NodeOrder.objects.get().key, "done: stop_job 1", 151.5)
    walk(run, 152)

    texts = [event.text for event in timeline(the_incident()) if event.kind == "action"]
    assert texts == [
        "Ana Diaz is warned",
        "Ana Diaz is warned again",
        "node-014 is asked: to end the job",
        "Done: stop_job 1",
    ]
    verbs = AuditEntry.objects.filter(action__startswith="action.").order_by("pk")
    assert [row.action for row in verbs] == [
        "action.warned", "action.warned_again", "action.order", "action.result"
    ]  # fmt: skip
    assert {row.name for row in verbs} == {"FleetWatch"}


def test_what_the_agent_says_ends_the_ladder_and_is_told():
    a_policy()
    people.route("operators", people.webhook("ops"))
    run = an_idle_job()
    walk(run, 31, 91, 151)
    answer(run.node, NodeOrder.objects.get().key, "refused: a GPU of the job did something", 151.5)

    assert walk(run, 152, 153) == [{"refused": 1}, {}]

    ladder = Action.objects.get()
    assert (ladder.state, ladder.result) == ("refused", "a GPU of the job did something")
    told = Delivery.objects.filter(key=f"action/{ladder.pk}/refused")
    assert sorted(told.values_list("channel__name", "address")) == [("app", "U0ANA"), ("ops", "")]


def test_an_order_that_nobody_answers_is_unheard_and_a_late_answer_counts():
    a_policy()
    run = an_idle_job()
    walk(run, 31, 91, 151)

    assert walk(run, 165.9, 166) == [{}, {"unheard": 1}]
    answer(run.node, NodeOrder.objects.get().key, "done: stop_job 1", 152)
    assert walk(run, 167, 168) == [{"done": 1}, {}]
    assert Action.objects.get().state == "done"


def test_another_nodes_word_about_an_order_is_not_believed():
    a_policy()
    run = an_idle_job()
    walk(run, 31, 91, 151)
    answer(a_gpu(node="node-099").node, NodeOrder.objects.get().key, "done: stop_job 1", 151.5)

    assert walk(run, 152) == [{}]


def test_a_warning_that_did_not_arrive_is_none():
    a_policy()
    run = an_idle_job()

    goes_on(run, 31, is_delivered=False)
    assert goes_on(run, 600, is_delivered=False).get("warned_again", 0) == 0

    Delivery.objects.update(state="failed")
    assert goes_on(run, 700, is_delivered=False).get("warned_again", 0) == 0
    assert not NodeOrder.objects.exists()


def test_the_wait_begins_when_the_warning_arrived():
    a_policy()
    run = an_idle_job()
    goes_on(run, 31, is_delivered=False)
    deliver(at(50))

    assert walk(run, 109.9, 110) == [{}, {"warned_again": 1}]


@pytest.mark.parametrize("teams", [[], ["vision"]])
def test_nobody_is_acted_on_who_is_not_named(teams):
    a_policy(teams=[people.team(slug) for slug in teams])
    run = an_idle_job()

    assert walk(run, 31, 91, 151, 211) == [{}] * 4


def test_a_job_of_another_kind_is_left_alone():
    a_policy(job_kinds=["interactive"])
    run = an_idle_job()

    assert walk(run, 31, 91) == [{}] * 2


@pytest.mark.parametrize("deed", ["ack", "snooze", "not_waste", "resolve"])
@pytest.mark.parametrize("minute", [31, 91])
def test_who_answers_ends_the_ladder(deed, minute):
    a_policy()
    run = an_idle_job()
    walk(run, 31, 91) if minute == 91 else walk(run, 31)
    ana = the_incident().person

    act(the_incident().pk, Deed(deed, reason="I need it"), by=ana, now=at(minute + 1))

    assert walk(run, minute + 1, 151, 211)[0] == {"ended": 1}
    assert not NodeOrder.objects.exists()


@pytest.mark.parametrize("kind", ["silence", "maintenance", "exemption", "justification"])
def test_what_is_silenced_between_two_looks_is_not_acted_on(kind):
    a_policy()
    run = an_idle_job()
    walk(run, 31, 91)
    longer(run, 151)
    Silence.objects.create(
        kind=kind, matchers=[{"label": "team", "values": ["nlp"]}], starts_at=at(150),
        ends_at=at(200), reason="a demo", created_at=at(150)
    )  # fmt: skip

    assert advance(at(151))["ended"] == 1
    assert not NodeOrder.objects.exists()


def test_a_job_that_worked_since_the_warning_begins_anew():
    a_policy()
    run = an_idle_job()
    rule = the_rule()
    rule.clear_minutes = 60
    rule.save()
    walk(run, 31)
    longer(run, 40)
    ran(run.gpu, "active", 40, 45, job=run.job)
    second = ran(run.gpu, "quiet", 45, 91, job=run.job)

    assert walk(second, 91)[0] == {"ended": 1}
    assert "did something" in Action.objects.get().result
    assert walk(second, 150.9, 151) == [{}, {"warned": 1}]


def the_rule():
    return Policy.objects.get().rule


def test_telemetry_that_is_missing_since_the_warning_begins_anew():
    a_policy()
    run = an_idle_job()
    walk(run, 31)
    longer(run, 60)
    ran(run.gpu, "unobserved", 60, 62, job=run.job)
    second = ran(run.gpu, "quiet", 62, 91, job=run.job)

    assert walk(second, 91)[0] == {"ended": 1}


def test_telemetry_that_is_old_waits():
    a_policy()
    run = an_idle_job()
    walk(run, 31, 91)
    longer(run, 145)
    announcing.run(at(151))

    assert advance(at(151)).get("acted", 0) == 0
    assert walk(run, 152)[0] == {"acted": 1}


def test_a_job_of_two_gpus_one_of_which_nobody_sees_is_left_alone():
    a_policy()
    run = an_idle_job()
    walk(run, 31, 91)
    other = a_gpu(node="node-014", index=1)
    ran(other, "quiet", 0, 100, job=run.job)

    assert not any(did.get("acted") for did in walk(run, 120, 151, 160))


@pytest.mark.parametrize("labels", [{"requested_gpus": "2"}, {"nodes": "2"}, {"het_job": "7"}])
def test_a_job_that_reaches_beyond_what_is_seen_is_left_alone(labels):
    a_policy()
    run = an_idle_job()
    Job.objects.update(labels=labels)

    assert walk(run, 31, 91) == [{}] * 2


def test_a_job_on_two_nodes_is_left_alone():
    a_policy()
    run = an_idle_job()
    other = ran(a_gpu(node="node-015", index=0), "quiet", 0, 31, job=run.job)
    longer(other, 31)

    assert walk(run, 31) == [{}]


def test_two_jobs_of_one_name_are_left_alone():
    a_policy()
    run = an_idle_job()
    Job.objects.create(key=f"{run.job.key}~2", user="bob", kind="batch")

    assert walk(run, 31) == [{}]


def test_a_job_whose_owner_nobody_knows_or_reaches_is_left_alone():
    a_policy()
    run = an_idle_job()
    people.prefers(people.User.objects.get(username="ana"), way="none")

    assert walk(run, 31) == [{}]


def test_a_job_without_a_rate_is_left_alone():
    a_policy()
    people.app()
    people.person()
    run = people.idle_job()

    assert walk(run, 31) == [{}]


def test_nobody_is_warned_or_acted_on_in_his_quiet_hours_and_they_do_not_count():
    """Quiet from 10:00 to 10:30, warned at 09:31: an hour awake later it is 11:01."""
    from datetime import time

    a_policy()
    run = an_idle_job()
    ana = people.User.objects.get(username="ana")
    people.prefers(ana, quiet_from=time(10), quiet_until=time(10, 30))

    assert walk(run, 31, 91, 121) == [{"warned": 1}, {}, {"warned_again": 1}]


def test_a_policy_that_is_off_does_nothing():
    a_policy(is_enabled=False)
    run = an_idle_job()

    assert walk(run, 31, 91) == [{}] * 2


def test_a_dry_run_warns_nobody_and_asks_the_agent_what_it_would_do():
    a_policy(dry_run_until=at(600))
    run = an_idle_job()

    assert walk(run, 31, 91, 151) == [{"warned": 1}, {"warned_again": 1}, {"acted": 1}]

    assert not Delivery.objects.filter(thread__startswith="action/").exists()
    order = NodeOrder.objects.get()
    assert order.is_dry_run
    answer(run.node, order.key, "would: stop_job 1", 152)
    assert walk(run, 153) == [{"would": 1}]
    assert not Delivery.objects.filter(thread__startswith="action/").exists()


def test_a_dry_run_that_ends_is_no_warning():
    """It ends at minute 100: whoever idles still is warned twice from then on."""
    a_policy(dry_run_until=at(100))
    run = an_idle_job()

    did = walk(run, 31, 91, 99.9, 100, 101, 151, 161, 221)

    assert did[3:] == [{"ended": 1}, {"warned": 1}, {}, {"warned_again": 1}, {"acted": 1}]
    assert not NodeOrder.objects.get().is_dry_run


def test_at_most_so_many_jobs_an_hour():
    a_policy(max_per_hour=1)
    first = an_idle_job()
    second = people.idle_job(key="slurm/della/2", external_id="2", index=1)
    did = []
    for minute in (31, 91, 151, 210.9, 211):
        longer(second, minute)
        did.append(goes_on(first, minute).get("acted", 0))

    assert did == [0, 0, 1, 0, 1]


@pytest.mark.parametrize(("most", "acted"), [("3.99", 1), ("4", 2), ("1.99", 0)])
def test_at_most_so_many_dollars_an_hour(most, acted):
    a_policy(max_usd_per_hour=Decimal(most))
    first = an_idle_job()
    second = people.idle_job(key="slurm/della/2", external_id="2", index=1)
    for minute in (31, 91, 151):
        longer(second, minute)
        goes_on(first, minute)

    assert NodeOrder.objects.count() == acted


def test_a_webhook_is_called_once_and_its_answer_is_kept():
    hook = people.webhook("hook")
    hook.kind = "webhook"
    hook.save()
    a_policy(kind="webhook", channel=hook)
    run = an_idle_job()

    assert walk(run, 31, 91, 151) == [{"warned": 1}, {"warned_again": 1}, {"acted": 1}]

    call = Delivery.objects.get(thread__endswith="/call")
    assert (call.channel, call.address) == (hook, "")
    assert dict(map(tuple, call.message["labels"]))["job"] == run.job.key
    assert walk(run, 152, 153) == [{"done": 1}, {}]
    assert not NodeOrder.objects.exists()


def test_a_job_that_becomes_anothers_is_warned_of_anew():
    a_policy()
    run = an_idle_job()
    walk(run, 31, 91)
    Job.objects.update(user="bob")
    people.person("bob", name="Bob Ray")

    assert walk(run, 151)[0] == {"ended": 1}
    assert not NodeOrder.objects.exists()


def test_a_job_that_its_rule_no_longer_watches_is_left_alone():
    a_policy()
    run = an_idle_job()
    walk(run, 31, 91)
    rule = the_rule()
    rule.matchers = [{"label": "node", "values": ["node-015"], "is_not": False}]
    rule.save()

    assert walk(run, 151, 211) == [{"ended": 1}, {}]
    assert Action.objects.get().result == "it is no longer so"


def test_an_incident_that_is_over_ends_the_ladder():
    a_policy()
    run = an_idle_job()
    walk(run, 31)
    ran(run.gpu, "active", 31, 40, job=run.job)
    announcing.run(at(41))

    assert advance(at(41)) == {"ended": 1}
    assert Action.objects.get().result == "it is no longer so"


def test_a_rule_that_is_removed_leaves_the_history():
    policy = a_policy()
    run = an_idle_job()
    walk(run, 31)

    policy.rule.delete()

    assert advance(at(32)) == {"ended": 1}
    assert Action.objects.get().state == "ended"


def test_it_is_acted_on_once_an_incident():
    a_policy()
    run = an_idle_job()
    walk(run, 31, 91, 151)
    answer(run.node, NodeOrder.objects.get().key, "refused: no", 152)

    assert walk(run, 153, 300, 400, 500) == [{"refused": 1}, {}, {}, {}]


@pytest.mark.django_db(transaction=True)
def test_four_workers_at_once_give_one_order():
    a_policy()
    run = an_idle_job()
    walk(run, 31, 91)
    longer(run, 151)
    announcing.run(at(151))
    gate = threading.Barrier(4)

    def work() -> None:
        gate.wait()
        advance(at(151))
        connection.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]

    assert NodeOrder.objects.count() == 1
    assert Action.objects.filter(state="ordered").count() == 1


def test_a_crash_between_order_and_note_leaves_neither(monkeypatch):
    a_policy()
    run = an_idle_job()
    walk(run, 31, 91)

    def crash(*_, **__):
        raise RuntimeError("killed")

    monkeypatch.setattr("fleetwatch.actions.taking_steps.record", crash)
    with pytest.raises(PartlyDoneError, match="killed"):
        goes_on(run, 151)
    assert not NodeOrder.objects.exists()
    monkeypatch.undo()

    assert walk(run, 152) == [{"acted": 1}]
    assert NodeOrder.objects.count() == 1


def test_an_incident_that_can_not_be_read_keeps_no_other_from_being_acted_on():
    a_policy()
    run = an_idle_job()
    people.person("bo", name="Bo Lund")
    people.idle_job(key="slurm/della/2", user="bo", index=1)
    goes_on(run, 31)
    longer(run, 91)
    announcing.run(at(91))
    Incident.objects.filter(person__username="bo").update(facts={"no": "breach"}, muted="x")

    with pytest.raises(PartlyDoneError, match=r"^incident \d+: ValidationError"):
        advance(at(91))

    assert Action.objects.get(person__username="ana").state == "warned_again"
