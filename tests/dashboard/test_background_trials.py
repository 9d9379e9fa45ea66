"""Policies tried in the background, as those see them who ask for them."""

from datetime import timedelta

import pytest
import time_machine
from django.test import Client

from fleetwatch.finance import policy_trial, trial_runs
from fleetwatch.finance.models import PolicyTrial
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger import services
from fleetwatch.ledger.policy import Policy
from tests.costs.factories import a_rate
from tests.dashboard import factories
from tests.dashboard.test_reports import text
from tests.ledger.fleet import BUSY, QUIET, START, T0, Sender, a_job, held, post

pytestmark = pytest.mark.django_db
NOW = START + timedelta(hours=1)
WANTED = {"idle_batch_s": "5 min", "hours": "1"}


@pytest.fixture
def finance():
    """Who pays, a moment after an hour of one GPU: 50 minutes of work, then 10 of none."""
    with time_machine.travel(NOW, tick=False):
        quiet_in_the_end = (*[BUSY] * 50, *[QUIET] * 10)
        post(Sender().batch(T0, *quiet_in_the_end, jobs=[a_job()], allocations=[held()]))
        a_rate("3.60", gpu=GPU.objects.get())
        client = Client()
        client.force_login(factories.user(role="finance"))
        yield client


def asked(client, **sent) -> PolicyTrial:
    client.post("/settings/policy/trials", WANTED | sent)
    return PolicyTrial.objects.get()


def test_what_takes_longer_than_somebody_waits_is_offered_in_the_background(finance, monkeypatch):
    monkeypatch.setattr(policy_trial, "AT_ONCE_S", -1)

    page = finance.get("/settings/policy?idle_batch_s=5+min&hours=1")

    assert "more than a page can judge at once" in text(page)
    assert 'action="/settings/policy/trials"' in page.content.decode()


def test_more_hours_than_a_request_judges_are_offered_in_the_background(finance, monkeypatch):
    monkeypatch.setattr(policy_trial, "MAX_GPU_HOURS", 0.5)

    page = finance.get("/settings/policy?idle_batch_s=5+min&hours=1")

    assert page.status_code == 200
    assert "1 GPU-hours: more than a page can judge at once" in text(page)
    assert '<input type="hidden" name="idle_batch_s" value="300 s">' in page.content.decode()


def test_a_trial_says_how_far_it_is_and_then_what_a_request_would_have_said(finance):
    trial = asked(finance)
    page = f"/settings/policy/trials/{trial.pk}"

    assert "a worker begins within seconds" in text(finance.get(page))
    assert "HX-Refresh" not in finance.get(page)
    PolicyTrial.objects.update(nodes_all=4, nodes_done=1)
    assert "1 of 4 nodes" in text(finance.get(page))
    trial_runs.advance(NOW)
    over = finance.get(page)

    assert over["HX-Refresh"] == "true"
    assert "Idle +0.17 GPU-hours ( +$0.60 ); wasted stays $0.60" in text(over)
    assert "Batch job is idle after 15 min → 5 min" in text(over)
    assert "Stalled probable 0.17 0.00 −0.17 −$0.60" in text(over)
    assert page in finance.get("/settings/policy").content.decode()


def test_what_was_tried_is_put_in_force_from_its_page(finance):
    trial = asked(finance)
    trial_runs.advance(NOW)
    finance.force_login(factories.user(role="admin", username="root"))

    page = finance.get(f"/settings/policy/trials/{trial.pk}").content.decode()

    assert 'action="/settings/policy-set"' in page
    assert '<input type="hidden" name="idle_batch_s" value="300">' in page
    assert "idle_batch_s=300+s&amp;hours=1" in page


def test_what_was_tried_beside_an_older_policy_is_not_put_in_force(finance):
    trial = asked(finance)
    trial_runs.advance(NOW)
    services.set_policy(Policy(idle_batch_s=600), now=NOW)
    finance.force_login(factories.user(role="admin", username="root"))

    page = finance.get(f"/settings/policy/trials/{trial.pk}")

    assert "Policy 2 came into force since" in text(page)
    assert 'action="/settings/policy-set"' not in page.content.decode()


def test_a_trial_is_stopped_once(finance):
    trial = asked(finance)
    stop = f"/settings/policy/trials/{trial.pk}/stop"

    assert "Stopped 0 of 1 nodes were judged" in text(finance.post(stop, follow=True))
    assert finance.post(stop).status_code == 409


def test_one_trial_runs_at_a_time(finance):
    asked(finance)

    page = finance.post("/settings/policy/trials", WANTED)

    assert "Another trial is running: wait for it, or stop it." in page.content.decode()
    assert PolicyTrial.objects.count() == 1


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        ({"idle_batch_s": "soon"}, "a duration like 15 min"),
        ({"idle_batch_s": ""}, "Which thresholds are tried"),
        ({"hours": "9000"}, "Which thresholds are tried"),
        ({"idle_batch_s": "9" * 9 + " s"}, "more of the past than is kept"),
        ({"idle_batch_s": "9" * 400}, "a duration like 15 min"),
    ],
)
def test_what_can_not_be_tried_is_refused_in_words(finance, sent, says):
    page = finance.post("/settings/policy/trials", WANTED | sent)

    assert page.status_code == 422
    assert says in page.content.decode()
    assert not PolicyTrial.objects.exists()


@pytest.mark.parametrize("role", ["engineer", "lead"])
def test_who_has_neither_the_fleet_nor_the_money_asks_for_and_sees_none(finance, role):
    trial = asked(finance)
    finance.force_login(factories.user(role=role, username="vera"))
    page = f"/settings/policy/trials/{trial.pk}"

    assert finance.post("/settings/policy/trials", WANTED).status_code == 403
    assert finance.post(f"{page}/stop").status_code == 403
    assert finance.get(page).status_code == 403
    assert page not in finance.get("/settings/policy").content.decode()
    assert PolicyTrial.objects.get().state == "running"


def test_a_stranger_is_led_to_the_log_in():
    for path in ("/settings/policy/trials", "/settings/policy/trials/1/stop"):
        assert Client().post(path).status_code == 302
    assert Client().get("/settings/policy/trials/1").status_code == 302
