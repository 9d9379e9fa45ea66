"""Nights, caps, and the one message of the rest. Organisation and people are in UTC here; nine in
the morning is minute 0.
"""

from datetime import time
from decimal import Decimal

import pytest

from fleetwatch.alerts.incidents.incident_actions import Action, act
from fleetwatch.alerts.messaging.telling_owners import WorthTelling, tell_owner
from fleetwatch.alerts.models import Incident, Notification
from fleetwatch.jobs.models import Job
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.notify.models import Delivery
from tests.alerts import people
from tests.alerts.factories import a_rule, at, longer, ran
from tests.alerts.test_announcing import run
from tests.alerts.test_muted_incidents import a_silence

pytestmark = pytest.mark.django_db
ONE = Decimal(1)


@pytest.fixture
def ana():
    """Who sleeps from nine to eleven."""
    people.app()
    people.route("operators", people.webhook("ops"))
    user = people.person()
    people.prefers(user, quiet_from=time(9), quiet_until=time(11))
    return user


def test_in_the_night_nobody_is_woken_and_in_the_morning_there_is_one_message(ana):
    a_rule()
    longer(people.idle_job(), 200)

    assert (run(31), run(119)) == ([], [])
    assert Notification.objects.get().state == "held"
    assert [key.split("/")[0] for _, _, key in run(120)] == ["kept"]
    assert run(121) == []
    assert Delivery.objects.get().thread == f"group/{Incident.objects.get().group_id}"


def test_several_groups_of_a_night_are_one_message(ana):
    a_rule()
    for index, key in enumerate(("slurm/della/1", "slurm/della/2")):
        longer(people.idle_job(key=key, index=index), 200)
    another = people.idle_job(key="slurm/della/3", index=3, node="node-015")
    longer(another, 200)
    run(31)

    assert len(run(120)) == 1
    message = Delivery.objects.get().message
    assert message["title"] == "2 things that happened meanwhile"
    assert len(message["rows"]) == 3
    assert set(Notification.objects.values_list("state", flat=True)) == {"digested"}


def test_what_is_over_by_the_morning_and_was_never_told_is_dropped(ana):
    a_rule()
    run_ = people.idle_job()
    run(31)
    ran(run_.gpu, "active", 31, 130, job=run_.job)

    assert (run(50), run(120), run(130)) == ([], [], [])
    assert Notification.objects.get().state == "dropped"


def test_what_was_told_before_the_night_is_closed_in_the_morning(ana):
    people.prefers(ana, quiet_from=time(9, 45), quiet_until=time(11))
    a_rule()
    run_ = people.idle_job()
    assert run(31) == [("app", "U0ANA", "opened")]
    ran(run_.gpu, "active", 31, 130, job=run_.job)

    assert (run(50), run(119)) == ([], [])
    assert len(run(120)) == 1
    assert Delivery.objects.last().message["severity"] == "resolved"


def test_what_somebody_acknowledged_meanwhile_wakes_nobody(ana):
    a_rule()
    longer(people.idle_job(), 200)
    run(31)
    act(Incident.objects.get().pk, Action("ack"), by=ana, now=at(60))

    assert run(120) == []


def test_what_is_critical_is_told_in_the_night(ana):
    a_rule(severity="critical")
    people.idle_job()

    assert run(31) == [("app", "U0ANA", "opened")]


def test_what_is_muted_in_the_morning_is_told_when_that_ends(ana):
    a_rule(escalate_minutes=0)
    longer(people.idle_job(), 300)
    run(31)
    a_silence(100, 150)

    assert (run(110), run(120), run(149)) == ([], [], [])
    assert run(150) == [("app", "U0ANA", "opened")]


def test_a_reminder_that_the_night_held_back_is_a_reminder_in_the_morning(ana):
    people.prefers(ana, quiet_from=time(9, 45), quiet_until=time(11))
    a_rule(escalate_minutes=30, remind_minutes=0)
    longer(people.idle_job(), 300)
    run(31)

    assert (run(61), len(run(120))) == ([], 1)
    message = Delivery.objects.last().message
    # an edit of the message above it nobody would hear
    assert message["is_reply"]
    assert message["title"].startswith("still idle")


def test_the_ladder_waits_for_the_morning(ana):
    a_rule(escalate_minutes=30, remind_minutes=0)
    longer(people.idle_job(), 300)
    run(31)

    assert (run(61), run(119), len(run(120))) == ([], [], 1)
    assert (run(149), run(150)) == ([], [("app", "U0ANA", "step/1")])


def test_channels_have_no_night(ana):
    rule = a_rule()
    rule.channels.set([people.webhook("rules")])
    people.idle_job()

    assert run(31) == [("rules", "", "opened")]


def test_beyond_the_days_cap_the_rest_comes_the_next_morning(ana):
    people.prefers(ana, quiet_from=None, quiet_until=None, daily_cap=1)
    a_rule(escalate_minutes=0, remind_minutes=0)
    for index in range(3):
        run_ = people.idle_job(key=f"slurm/della/{index}", index=index, node=f"node-{index}")
        longer(run_, 3000)

    assert len(run(31)) == 1
    assert run(60) == []
    eight = 23 * 60
    assert run(eight - 1) == []
    assert len(run(eight)) == 1
    assert run(eight + 1) == []
    states = sorted(Notification.objects.values_list("state", flat=True))
    assert states == ["digested", "digested", "sent"]


def test_what_was_kept_and_is_told_at_once_is_one_of_the_days_messages(ana):
    people.prefers(ana, daily_cap=1)
    a_rule(escalate_minutes=0, remind_minutes=0)
    for index in range(2):
        run_ = people.idle_job(key=f"slurm/della/{index}", index=index, node=f"node-{index}")
        longer(run_, 300)
    run(31)

    assert len(run(120)) == 1
    longer(people.idle_job(key="slurm/della/9", index=9, node="node-9"), 300)
    assert run(121) == []


def test_beyond_the_days_cap_what_was_sent_still_changes(ana):
    people.prefers(ana, quiet_from=None, quiet_until=None, daily_cap=1)
    a_rule()
    longer(people.idle_job(), 200)
    run(31)
    act(Incident.objects.get().pk, Action("ack"), by=ana, now=at(32))

    assert run(33) == [("app", "U0ANA", "changed/2")]
    assert run(34) == []


def tell(minute: float, *, finding: int, by) -> str:
    matter = WorthTelling(finding, Job.objects.get(), "Idle", "It rests.", 1, (ONE, ONE), ())
    return tell_owner(matter, by=by, now=at(minute))


def test_what_somebody_tells_by_hand_is_one_of_the_days_messages_too(ana):
    people.prefers(ana, quiet_from=None, quiet_until=None, daily_cap=2)
    by = people.person("lead", name="Lea Lead")
    a_rule()
    longer(people.idle_job(), 3000)
    told = [tell(1, finding=7, by=by), *run(31)]

    with pytest.raises(RefusedFieldError) as refused:
        tell(40, finding=8, by=by)

    assert told == ["Ana Diaz", ("app", "U0ANA", "opened")]
    assert "Ana Diaz wants to hear no more today; from" in str(refused.value)
    # on the next day there is room again, for one of each
    assert tell(24 * 60, finding=8, by=by) == "Ana Diaz"
    assert Delivery.objects.filter(address="U0ANA").count() == 3


def test_beyond_what_was_told_by_hand_rules_wait_for_the_morning(ana):
    people.prefers(ana, quiet_from=None, quiet_until=None, daily_cap=1)
    a_rule(escalate_minutes=0)
    longer(people.idle_job(), 200)

    tell(1, finding=7, by=ana)

    assert run(31) == []
    assert Notification.objects.get().state == "capped"


def test_edits_are_no_messages_and_count_for_no_cap(ana):
    people.prefers(ana, quiet_from=None, quiet_until=None, daily_cap=2)
    a_rule()
    longer(people.idle_job(), 200)
    run(31)
    for minute in (32, 33, 34):
        Incident.objects.update(
            note="" if minute % 2 else "Not known since 09:31 UTC whether it goes on."
        )
        Incident.objects.update(assignee=ana if minute % 2 else None)
        run(minute)
    longer(people.idle_job(key="slurm/della/2", index=1, node="node-2"), 200)

    assert run(60) == [("app", "U0ANA", "opened")]


def test_who_leaves_in_the_night_is_told_nothing(ana):
    a_rule()
    longer(people.idle_job(), 200)
    run(31)
    ana.is_active = False
    ana.save()

    assert [channel for channel, _, _ in run(120)] == []
    assert Notification.objects.get(person=ana).state == "dropped"


def test_who_prefers_other_hours_since_is_told_when_those_end(ana):
    a_rule()
    longer(people.idle_job(), 400)
    run(31)
    people.prefers(ana, quiet_until=time(12))

    assert (run(120), run(179)) == ([], [])
    assert len(run(180)) == 1
