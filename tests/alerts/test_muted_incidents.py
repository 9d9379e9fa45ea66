"""What is muted is not told, and told when that ends, if it still goes on."""

from datetime import time

import msgspec
import pytest

from fleetwatch.alerts.messaging import announcing
from fleetwatch.alerts.models import Incident, IncidentEvent, Rule, Silence
from fleetwatch.alerts.weekly_hours import Hours
from tests.alerts import people
from tests.alerts.factories import NINE, a_rule, an_incident, at, longer, ran
from tests.alerts.test_announcing import run

NODE = [{"label": "node", "values": ["node-014"]}]


def a_silence(start: float, end: float, **fields) -> Silence:
    usual = {"matchers": NODE, "reason": "GPU repair", "created_at": NINE}
    return Silence.objects.create(starts_at=at(start), ends_at=at(end), **(usual | fields))


@pytest.mark.django_db
def test_what_is_silenced_is_told_when_the_silence_ends_and_it_still_goes_on():
    a_rule()
    people.webhook()
    a_silence(0, 60)
    run_ = people.idle_job()
    longer(run_, 100)

    assert (run(31), run(59)) == ([], [])
    assert Incident.objects.get().muted == "silence until 20 Nov 2026, 10:00 UTC: GPU repair"
    assert run(60) == [("hook", "", "opened")]
    assert Incident.objects.get().muted == ""
    kinds = IncidentEvent.objects.order_by("pk").values_list("kind", flat=True)
    assert list(kinds) == ["fired", "muted", "unmuted", "told_opened"]


@pytest.mark.django_db
def test_what_is_over_before_the_silence_ends_is_never_told():
    a_rule()
    people.webhook()
    a_silence(0, 60)
    run_ = people.idle_job()
    run(31)
    ran(run_.gpu, "active", 31, 70, job=run_.job)

    assert (run(40), run(70)) == ([], [])
    assert Incident.objects.get().state == "resolved"


@pytest.mark.django_db
def test_what_was_told_and_is_snoozed_is_told_again_below_when_the_snooze_ends():
    a_rule(escalate_minutes=60, remind_minutes=0)
    people.app()
    people.person()
    people.route("operators", people.webhook("ops"))
    run_ = people.idle_job()
    longer(run_, 400)
    run(31)
    Incident.objects.update(snoozed_until=at(200))

    assert run(32) == [("app", "U0ANA", "changed/2")]
    assert (run(91), run(199)) == ([], [])  # nobody climbs meanwhile
    assert run(200) == [("app", "U0ANA", "back/3")]
    # and its wait begins anew
    assert (run(259), run(260)) == ([("app", "U0ANA", "changed/4")], [("app", "U0ANA", "step/1")])


@pytest.mark.django_db
def test_who_was_told_hears_of_the_end_though_it_is_muted_then():
    a_rule()
    people.webhook()
    run_ = people.idle_job()
    run(31)
    a_silence(35, 100)
    run(36)
    ran(run_.gpu, "active", 31, 50, job=run_.job)

    assert run(50) == [("hook", "", "resolved")]


@pytest.mark.django_db
def test_a_rule_tells_in_its_hours():
    night = Hours(time(22), time(10))
    a_rule(schedule=msgspec.to_builtins(Hours(night.ends, night.starts)))
    people.webhook()
    longer(people.idle_job(), 100)

    assert (run(31), run(60)) == ([], [("hook", "", "opened")])


@pytest.mark.django_db
def test_a_silent_node_speaks_for_the_jobs_on_it():
    a_rule()
    people.webhook()
    silent = Rule.objects.create(
        name="Node silent", condition="node_silent", threshold=0, minutes=5, created_at=NINE
    )
    speaker = an_incident(
        silent, "node-014", opened_at=at(20), facts={"labels": {"node": ["node-014"]}}
    )
    speaker.is_late = True  # it is not what is looked at here
    speaker.save()
    people.idle_job()
    announcing.evaluate(at(31))
    Incident.objects.filter(pk=speaker.pk).update(state="firing", ended_ms=None, resolved_at=None)

    assert announcing.announce(at(31))["told"] == 0
    job = Incident.objects.exclude(pk=speaker.pk).get()
    assert job.muted == "Node silent of node-014 speaks for it"

    Incident.objects.filter(pk=speaker.pk).update(state="resolved", resolved_at=at(32))
    assert announcing.announce(at(32))["told"] == 1


@pytest.mark.django_db
def test_what_came_late_is_told_when_fresh_data_show_that_it_goes_on():
    a_rule()
    people.webhook()
    run_ = people.idle_job(31)

    assert run(60) == []
    assert Incident.objects.get().is_late
    longer(run_, 61)
    assert run(62) == [("hook", "", "opened")]


@pytest.mark.django_db
def test_one_of_a_group_that_is_muted_is_left_out_of_its_message():
    a_rule()
    people.webhook()
    people.idle_job()
    people.idle_job(key="slurm/della/2", index=1)
    a_silence(0, 60, matchers=[{"label": "subject", "values": ["slurm/della/2"]}])

    run(31)

    groups = Incident.objects.values_list("subject", "group").order_by("subject")
    assert [group is None for _, group in groups] == [False, True]
