"""A finding that somebody closed as no waste holds back the job's incidents of the same cause."""

import pytest

from fleetwatch.alerts.back_test import back_test
from fleetwatch.alerts.conditions import condition
from fleetwatch.alerts.incidents import incident_inbox as inbox
from fleetwatch.alerts.models import Incident, Rule
from fleetwatch.alerts.services import settings_of
from fleetwatch.diagnosis.findings.deciding import Decision, decide
from fleetwatch.diagnosis.models import Finding
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import Interval
from tests.alerts import people
from tests.alerts.factories import a_rule, an_incident, at, longer, ran
from tests.alerts.test_announcing import run

pytestmark = pytest.mark.django_db
SAID = "accepted until somebody ends that agreement: the other GPUs are its hot spare"


def decided(job: Job, action: str = "dismiss", *, cause: str = "idle_held") -> Finding:
    row, _ = Finding.objects.get_or_create(job=job, cause=cause, first_ms=0, last_ms=1)
    decision = Decision(action, "the other GPUs are its hot spare")
    return decide(row.pk, decision, by=people.person("otto", role="admin"), now=at(20))


@pytest.fixture
def idle():
    a_rule()
    people.webhook()
    idle = people.idle_job()
    longer(idle, 100)
    return idle.job


def test_nobody_is_told_of_it_until_the_finding_is_reopened(idle):
    finding = decided(idle)

    assert run(31) == []
    assert Incident.objects.get().muted == SAID
    assert Incident.objects.get().is_accepted

    Finding.objects.filter(pk=finding.pk).update(status="open")
    assert run(40) == [("hook", "", "opened")]
    assert Incident.objects.get().muted == ""


@pytest.mark.parametrize(("action", "cause"), [("accept", "idle_held"), ("dismiss", "small_batch")])
def test_what_somebody_will_change_and_what_is_of_another_cause_is_told(idle, action, cause):
    decided(idle, action, cause=cause)

    assert run(31) == [("hook", "", "opened")]


def test_it_is_of_that_job_alone(idle):
    decided(Job.objects.create(key="slurm/della/*", scheduler="slurm", external_id="*"))

    assert run(31) == [("hook", "", "opened")]


def test_what_was_over_when_its_finding_was_closed_is_agreed_until_that_is_ended(idle):
    """Its page, the lists and their counts, and the rule's back-test ask the incident alone."""
    ran(GPU.objects.get(), "active", 100, 130, job=idle)
    run(130)
    incident = Incident.objects.get()
    assert (incident.state, incident.is_accepted) == ("resolved", False)

    finding = decided(idle)
    run(131)
    agreed = Incident.objects.get()

    assert (agreed.muted, agreed.is_accepted) == (SAID, True)
    assert inbox.over_sums(Incident.objects.all(), at(0)).accepted == 1
    assert Incident.objects.filter(inbox.in_state("accepted", at(131))).exists()
    tried = back_test(
        condition("job_idle"), settings_of(agreed.rule), (), Interval(at(-60), at(131))
    )
    assert tried.by_verdict == {"rejected": 1}

    Finding.objects.filter(pk=finding.pk).update(status="open")
    run(132)
    assert (Incident.objects.get().muted, Incident.objects.get().is_accepted) == ("", False)


def test_what_was_over_stays_as_it_is_where_a_finding_of_another_cause_is_closed(idle):
    ran(GPU.objects.get(), "active", 100, 130, job=idle)
    run(130)

    decided(idle, cause="small_batch")
    run(131)

    assert not Incident.objects.get().is_accepted


def test_what_was_over_while_an_operator_approved_of_it_is_agreed_too(idle):
    """An exemption that began after the end is of the time that comes."""
    rule = Rule.objects.get()
    muted = "exemption until 27 Nov 2026, 09:00 UTC: a warm replica"
    an_incident(rule, "slurm/della/8", opened_at=at(0), resolved_at=at(40), muted=muted)
    an_incident(rule, "slurm/della/9", opened_at=at(0), resolved_at=at(40))

    accepted = Incident.objects.filter(inbox.in_state("accepted", at(50)))

    assert [(each.subject, each.is_accepted) for each in accepted] == [("slurm/della/8", True)]
