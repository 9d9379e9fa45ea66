"""A finding that somebody closed as no waste holds back the job's incidents of the same cause."""

import pytest

from fleetwatch.alerts.models import Incident
from fleetwatch.diagnosis.findings.deciding import Decision, decide
from fleetwatch.diagnosis.models import Finding
from fleetwatch.jobs.models import Job
from tests.alerts import people
from tests.alerts.factories import a_rule, at, longer
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
