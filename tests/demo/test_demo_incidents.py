"""What had fired before a demo hub's first start, and what its people did about it."""

from datetime import timedelta

import pytest

from fleetwatch.accounts.models import AuditEntry, User
from fleetwatch.alerts.models import Incident, IncidentEvent, Rule, Silence
from fleetwatch.demo import cast, demo_desk, demo_incidents
from fleetwatch.lib.intervals import to_ms
from fleetwatch.notify.models import Delivery
from tests.alerts.factories import an_incident, at, ran
from tests.costs.factories import a_gpu, a_job

pytestmark = pytest.mark.django_db

NOW = at(9 * 60)  # the first look is at minute 0, the next ones each 45 minutes


@pytest.fixture
def people():
    User.objects.create(username="admin", role=User.Role.ADMIN)
    cast.make_people("violet harbour eighty-four", now=NOW)
    demo_desk.set_up(NOW)


@pytest.fixture
def past(people):
    """A job that was idle for two hours and works since, and one that is idle for four."""
    first, job = a_gpu(uuid="GPU-first"), a_job(key="slurm/a/1")
    ran(first, "quiet", -120, 30, job=job)
    ran(first, "active", 30, 540, job=job)
    ran(a_gpu(uuid="GPU-second"), "quiet", 300, 540, job=a_job(key="slurm/a/2"))


def test_what_fired_in_the_last_hours_fires_and_is_over_when_it_was(past):
    assert demo_incidents.evaluate_past(NOW) == 2

    over, goes_on = Incident.objects.order_by("opened_at")
    assert (over.opened_at, over.resolved_at, over.resolution) == (
        at(0),
        at(45),
        "its GPU is active again",
    )
    assert (goes_on.opened_at, goes_on.state) == (at(315), "firing")  # pending at first
    assert set(Delivery.objects.values_list("state", flat=True)) == {"sent"}
    assert Delivery.objects.earliest("created_at").created_at == at(0)


def test_between_two_looks_it_is_raised_when_it_fired_and_resolved_when_its_job_ended(people):
    ended = a_job(key="slurm/a/3", end_ms=to_ms(at(200)))
    ran(a_gpu(), "quiet", 100, 200, job=ended)

    demo_incidents.evaluate_past(NOW)

    one = Incident.objects.get()
    assert (one.opened_at, one.ended_ms) == (at(130), to_ms(at(200)))
    assert at(200) <= one.resolved_at <= at(215)


def test_a_rule_that_was_evaluated_before_keeps_the_past_untold(past):
    demo_incidents.evaluate_past(NOW)
    Incident.objects.all().delete()

    assert demo_incidents.evaluate_past(NOW) == 0
    assert not Incident.objects.exists()


def test_people_act_on_what_is_over_as_minutes_later_and_on_their_own_since_they_are_there(past):
    User.objects.filter(username="otto").update(is_active=False)
    demo_incidents.evaluate_past(NOW)

    assert demo_incidents.act_on_some(NOW) == 1

    over = Incident.objects.get(resolved_at=at(45))
    fixed = IncidentEvent.objects.get(kind="fixed")
    assert (over.verdict, fixed.incident, fixed.by.username, fixed.at) == (
        "confirmed",
        over,
        "amara",
        NOW,
    )


def test_what_an_operator_accepted_is_told_to_nobody_from_then_on(past):
    demo_incidents.evaluate_past(NOW)

    silence = Silence.objects.get(kind="justification")
    assert (silence.by.username, silence.starts_at) == ("otto", at(57))  # 12 minutes after its end


def test_the_audit_log_has_an_act_at_the_moment_that_the_incident_has_it(past):
    demo_incidents.evaluate_past(NOW)
    demo_incidents.act_on_some(NOW)

    events = IncidentEvent.objects.exclude(by=None).order_by("at")
    logged = AuditEntry.objects.filter(action__startswith="incident.").order_by("at")
    assert [(f"incident.{each.kind}", each.at) for each in events] == [
        (each.action, each.at) for each in logged
    ]
    assert at(57) in [each.at for each in logged]


def test_an_operator_acknowledges_and_snoozes_what_goes_on_minutes_after_it_fired(people):
    rules = {name: Rule.objects.get(condition=name) for name in demo_incidents.PAST_RULES}
    errors = an_incident(rules["gpu_memory_errors"], "GPU-a", opened_at=at(60))
    idle = an_incident(rules["job_idle"], "slurm/a/3", opened_at=at(535))

    assert demo_incidents.act_on_some(NOW) == 2
    assert demo_incidents.act_on_some(NOW) == 0

    errors.refresh_from_db()
    idle.refresh_from_db()
    assert (errors.acknowledged_by.username, errors.acknowledged_at) == ("otto", at(72))
    assert idle.snoozed_until == NOW + timedelta(hours=12)
    assert IncidentEvent.objects.get(kind="snooze").at == NOW  # not before it is there


def test_what_is_no_waste_is_silenced_with_its_reason(people):
    rule = Rule.objects.get(condition="job_idle")
    an_incident(rule, "slurm/a/3", opened_at=at(60), resolved_at=at(100))

    demo_incidents.act_on_some(NOW)

    silence = Silence.objects.get(kind="justification")
    assert (silence.by.username, silence.starts_at, silence.reason) == (
        "otto",
        at(112),
        "held for the workshop, agreed with us",
    )
    assert AuditEntry.objects.filter(action="incident.not_waste", name="otto").count() == 1
