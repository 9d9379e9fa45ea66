"""That each rule is evaluated, whatever becomes of others; and anew when it is switched on again."""

import pytest

from fleetwatch.accounts.models import User
from fleetwatch.alerts.incidents.incident_actions import Action, act
from fleetwatch.alerts.messaging import announcing
from fleetwatch.alerts.models import Incident, Rule
from fleetwatch.jobs.models import Job
from fleetwatch.lib.fences import PartlyDoneError
from fleetwatch.notify.models import Delivery
from tests.alerts.factories import NINE, a_rule, at, longer, ms
from tests.alerts.test_services import an_idle_job, set_to, slack

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("plain_static_files")]


def test_what_goes_on_when_a_rule_is_switched_on_again_is_opened_again():
    rule = a_rule()
    _, run = an_idle_job()
    announcing.run(at(31))
    set_to(rule, is_enabled=False)
    longer(run, 35)
    announcing.run(at(35))
    rule.refresh_from_db()
    set_to(rule, is_enabled=True)
    for minute in (36, 37):
        longer(run, minute)
        announcing.run(at(minute))

    first, second = Incident.objects.order_by("pk")
    assert (first.state, second.state) == ("resolved", "firing")


def test_what_was_resolved_by_hand_stays_so_when_its_rule_is_switched_off_and_on():
    rule = a_rule()
    _, run = an_idle_job()
    announcing.run(at(31))
    ana = User.objects.create(username="ana", role="operator")
    act(Incident.objects.get().pk, Action("resolve", "a demo"), by=ana, now=at(31))
    set_to(rule, is_enabled=False)
    announcing.run(at(35))
    rule.refresh_from_db()
    set_to(rule, is_enabled=True)
    longer(run, 37)
    announcing.run(at(37))

    assert Incident.objects.get().resolved_by == ana


def test_a_clock_that_was_ahead_keeps_no_rule_from_being_evaluated():
    rule = a_rule(condition="low_utilisation", threshold=0.1, evaluated_ms=ms(10_000))

    announcing.run(at(31))

    rule.refresh_from_db()
    assert rule.evaluated_ms == ms(31)


def test_a_rule_that_can_not_be_evaluated_keeps_no_other_from_being_so():
    """The failure is the run's, once the others were told."""
    rule = a_rule()
    broken = Rule.objects.create(
        name="Broken", condition="gone", threshold=0, minutes=1, created_at=NINE
    )
    Rule.objects.filter(pk=rule.pk).update(id=broken.pk + 1)
    slack()
    an_idle_job()

    with pytest.raises(PartlyDoneError, match="^Broken: "):
        announcing.run(at(31))

    assert Incident.objects.get().rule.name == "Job idle"
    assert Delivery.objects.count() == 1


def test_a_rule_that_can_not_be_evaluated_says_since_when_and_why_until_it_is(client, monkeypatch):
    rule = a_rule()
    rejected = RuntimeError("a name\nwith \x00 <b>")

    def broken(*_):
        raise rejected

    monkeypatch.setattr("fleetwatch.alerts.services.evaluate_rule", broken)
    for minute in (1, 2):
        with pytest.raises(PartlyDoneError):
            announcing.run(at(minute))

    rule.refresh_from_db()
    assert (rule.failing_since, rule.failure) == (at(1), "RuntimeError: a name with <b>")
    client.force_login(User.objects.create(username="ops", role="operator"))
    for address in ("/alerts/rules", f"/alerts/rules/{rule.pk}"):
        page = " ".join(client.get(address).content.decode().split())
        assert "Can’t be evaluated: since" in page
        assert "RuntimeError: a name with &lt;b&gt;" in page
    client.force_login(User.objects.create(username="eve", role="engineer"))
    assert "RuntimeError" not in client.get("/alerts/rules").content.decode()  # it may name others

    monkeypatch.undo()
    announcing.run(at(3))

    rule.refresh_from_db()
    assert (rule.failing_since, rule.failure) == (None, "")
    assert "be evaluated: since" not in client.get("/alerts/rules").content.decode()


def test_the_longest_key_of_a_job_that_shares_it_opens_an_incident():
    a_rule()
    _, run = an_idle_job()
    Job.objects.filter(pk=run.job_id).update(key="k" * 400 + "~2")

    assert announcing.run(at(31))["opened"] == 1


def narrowed(rule, team: str) -> None:
    Rule.objects.filter(pk=rule.pk).update(matchers=[{"label": "team", "values": [team]}])


def test_what_a_narrowed_rule_does_not_watch_any_more_is_over_and_says_so():
    rule = a_rule()
    slack()
    _, run = an_idle_job()
    announcing.run(at(31))
    narrowed(rule, "vision")
    longer(run, 33)

    assert announcing.run(at(33))["resolved"] == 1

    incident = Incident.objects.get()
    assert (incident.state, incident.resolution, incident.verdict) == (
        "resolved",
        "the rule does not watch it any more",
        "",
    )
    longer(run, 34)
    assert announcing.run(at(34))["opened"] == 0
    narrowed(rule, "nlp")
    longer(run, 35)
    assert announcing.run(at(35))["opened"] == 1  # it goes on, and is watched again


def test_what_does_not_fire_yet_is_no_incident_of_a_rule_that_was_narrowed():
    rule = a_rule()
    an_idle_job(minutes=20)
    announcing.run(at(20))
    assert Incident.objects.get().state == "pending"
    narrowed(rule, "vision")

    announcing.run(at(21))

    assert not Incident.objects.exists()


def test_what_is_unseen_stays_open_as_long_as_what_was_known_of_it_is_watched():
    rule = a_rule()
    an_idle_job()
    announcing.run(at(31))
    narrowed(rule, "nlp")

    assert announcing.run(at(60))["no_data"] == 1

    narrowed(rule, "vision")
    assert announcing.run(at(61))["resolved"] == 1


def test_a_rule_that_is_raised_and_lowered_again_opens_again_what_goes_on():
    rule = a_rule(minutes=30)
    slack()
    _, run = an_idle_job()
    announcing.run(at(31))
    for minute, minutes in ((32, 60), (33, 30)):
        Rule.objects.filter(pk=rule.pk).update(minutes=minutes)
        longer(run, minute)
        announcing.run(at(minute))

    first, second = Incident.objects.order_by("pk")
    assert (first.state, second.state) == ("resolved", "firing")
