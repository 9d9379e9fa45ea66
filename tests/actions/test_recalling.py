"""What was asked for is taken back as long as nobody did it; and what is said where that was too
late.
"""

from datetime import time

import pytest

from fleetwatch.actions.action_policies import remove_policy, switch_policy
from fleetwatch.actions.keeping import keep
from fleetwatch.actions.models import Action, Policy
from fleetwatch.actions.taking_steps import advance
from fleetwatch.alerts.incidents.incident_actions import Action as Deed
from fleetwatch.alerts.incidents.incident_actions import act
from fleetwatch.alerts.messaging import announcing
from fleetwatch.alerts.models import Rule
from fleetwatch.alerts.selectors import timeline
from fleetwatch.ingest.models import NodeOrder
from fleetwatch.notify.delivering import deliver_due
from fleetwatch.notify.models import Delivery
from tests.actions.factories import (
    a_policy,
    an_idle_job,
    an_operator,
    answer,
    goes_on,
    the_incident,
)
from tests.alerts import people
from tests.alerts.factories import at, ran

pytestmark = pytest.mark.django_db


def a_called_webhook():
    """The run of a job; what ends it was called at minute 151 and does not answer."""
    hook = people.webhook("hook")
    hook.kind = "webhook"
    hook.save()
    a_policy(kind="webhook", channel=hook)
    run = an_idle_job()
    goes_on(run, 31)
    goes_on(run, 91)
    goes_on(run, 151, is_delivered=False)
    Delivery.objects.exclude(pk=the_call().pk).update(state="sent")
    return run


def the_call() -> Delivery:
    return Delivery.objects.get(thread__endswith="/call")


def an_ordered_job():
    """The run of a job; its node's agent was asked at minute 151."""
    a_policy()
    run = an_idle_job()
    for minute in (31, 91, 151):
        goes_on(run, minute)
    return run


def good_until() -> float:
    """The minute from which on the order is void."""
    return (NodeOrder.objects.get().expires_at - at(0)).total_seconds() / 60


def test_a_webhook_that_does_not_answer_is_not_called_once_the_job_may_work_again():
    run = a_called_webhook()
    assert the_call().expires_at == at(161)

    assert deliver_due(at(161), 1)["expired"] == 1

    assert the_call().state == "failed"
    assert goes_on(run, 162)["refused"] == 1


def test_a_job_that_is_kept_is_not_called_for():
    a_called_webhook()

    keep(Action.objects.get().pk, by=the_incident().person, reason="", now=at(152))

    assert deliver_due(at(152), 1)["expired"] == 1
    assert the_call().state == "failed"


def test_a_job_that_works_again_is_not_called_for():
    run = a_called_webhook()
    ran(run.gpu, "active", 151, 152, job=run.job)
    announcing.run(at(152))

    assert advance(at(152))["recalled"] == 1

    assert deliver_due(at(152), 1)["expired"] == 1


def test_a_policy_that_is_switched_off_takes_back_its_orders():
    an_ordered_job()

    switch_policy(Policy.objects.get(), is_enabled=False, by=an_operator(), now=at(152))

    assert good_until() == 152
    assert Action.objects.get().state == "ordered"


def test_a_policy_that_is_removed_takes_back_its_orders():
    an_ordered_job()

    remove_policy(Policy.objects.get(), by=an_operator(), now=at(152))

    assert good_until() == 152


def test_a_rule_that_is_switched_off_takes_back_orders():
    run = an_ordered_job()
    Rule.objects.update(is_enabled=False)

    goes_on(run, 152)

    assert good_until() == 152


@pytest.mark.parametrize("deed", ["ack", "snooze", "not_waste"])
def test_who_answers_after_the_order_takes_it_back_and_that_is_said_once(deed):
    run = an_ordered_job()
    act(the_incident().pk, Deed(deed, reason="I need it"), by=the_incident().person, now=at(152))

    did = [goes_on(run, minute).get("recalled", 0) for minute in (152, 153)]

    assert did == [1, 0]
    assert good_until() == 152
    texts = [event.text for event in timeline(the_incident()) if event.kind == "action"]
    assert texts[-1].startswith("what was asked is taken back: ")


def test_an_order_that_nothing_speaks_against_stays_good():
    run = an_ordered_job()

    goes_on(run, 152)

    assert good_until() == 161


def test_that_it_was_too_late_to_keep_it_is_said():
    run = an_ordered_job()
    keep(Action.objects.get().pk, by=the_incident().person, reason="a demo", now=at(152))
    answer(run.node, NodeOrder.objects.get().key, "done: stop_job 1", 151.9)

    assert goes_on(run, 153)["done"] == 1

    ladder = Action.objects.get()
    assert (ladder.state, ladder.result) == ("done", "it was too late to keep it: stop_job 1")
    assert Delivery.objects.filter(key=f"action/{ladder.pk}/done", address="U0ANA").exists()
    assert goes_on(run, 154).get("done", 0) == 0


@pytest.mark.parametrize("text", ["refused: a GPU did something", "would: stop_job 1"])
def test_a_job_that_was_kept_in_time_stays_kept(text):
    run = an_ordered_job()
    keep(Action.objects.get().pk, by=the_incident().person, reason="a demo", now=at(152))
    answer(run.node, NodeOrder.objects.get().key, text, 152.5)

    goes_on(run, 153)
    goes_on(run, 170)

    assert Action.objects.get().state == "kept"


def test_what_came_of_it_wakes_nobody():
    """Quiet from 11:32 on, minute 152, until 13:00; operators' channels have no night."""
    run = an_ordered_job()
    people.route("operators", people.webhook("ops"))
    people.prefers(the_incident().person, quiet_from=time(11, 32), quiet_until=time(13))
    answer(run.node, NodeOrder.objects.get().key, "done: stop_job 1", 151.5)

    goes_on(run, 152, is_delivered=False)

    told = Delivery.objects.filter(key__endswith="/done")
    assert dict(told.values_list("address", "next_attempt_at")) == {"U0ANA": at(240), "": at(152)}
