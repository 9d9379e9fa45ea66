"""What is kept of who said what of a job, and for how long."""

from datetime import timedelta

import pytest

from fleetwatch.jobs.job_writes import MAX_CHANGES, UNHEARD_MS, drop_unheard
from fleetwatch.jobs.models import ChangedJob, GPUProcess, Job, JobChange, JobRecord
from fleetwatch.jobs.selectors import changes
from fleetwatch.lib.intervals import from_ms
from tests.ingest.factories import NOW, T0, holding, job
from tests.jobs.speakers import accounting, store, the_job

pytestmark = pytest.mark.django_db


def test_of_many_nodes_of_a_job_the_first_is_noted_and_the_others_say_nothing_new():
    for number in range(8):
        store(node=f"n{number}", **holding(job(state="RUNNING")))

    change = JobChange.objects.get()
    assert (change.node.name, change.at, change.refused) == ("n0", NOW, [])
    assert change.facts == {"user": "ann", "account": "nlp", "state": "RUNNING"}


def test_what_is_said_again_writes_no_change_and_no_job():
    store(**holding(job(state="RUNNING")))
    before = (list(JobChange.objects.values()), list(Job.objects.values()))
    ChangedJob.objects.all().delete()

    for sequence in range(2, 6):
        store(sequence=sequence, start_ms=T0 + sequence * 30_000, **holding(job(state="RUNNING")))

    assert (list(JobChange.objects.values()), list(Job.objects.values())) == before
    assert not ChangedJob.objects.exists()


def test_who_said_what_when_is_kept_with_what_was_not_taken():
    store(**holding(job(state="RUNNING")))
    later = NOW + timedelta(minutes=5)
    store(
        node="evil",
        received_at=later,
        start_ms=T0 + 30_000,
        **holding(job(user="victim", state="RUNNING")),
    )

    told = JobChange.objects.order_by("pk").last()
    assert (told.node.name, told.at, told.facts, told.refused) == (
        "evil",
        later,
        {"user": "victim", "account": "nlp", "state": "RUNNING"},
        [],
    )
    assert changes(the_job())[0] == told


def test_of_a_job_the_newest_changes_are_kept():
    for sequence in range(MAX_CHANGES + 10):
        store(
            sequence=sequence,
            start_ms=T0 + sequence * 1000,
            count=1,
            **holding(job(name=f"run {sequence}")),
        )

    names = [change.facts["name"] for change in JobChange.objects.order_by("pk")]
    assert len(names) == MAX_CHANGES
    assert (names[0], names[-1]) == ("run 10", f"run {MAX_CHANGES + 9}")


def test_a_process_of_a_job_that_nobody_holds_is_listed_without_it():
    store(jobs=[job()], processes=[{"gpu": 0, "job": 0, "pid": 7}])

    assert GPUProcess.objects.values_list("pid", "job").get() == (7, None)


@pytest.mark.parametrize(("age_ms", "left"), [(UNHEARD_MS, 1), (UNHEARD_MS + 1, 0)])
def test_what_was_said_of_a_job_that_its_node_never_held_is_dropped_after_a_week(age_ms, left):
    store(jobs=[job()])

    drop_unheard(from_ms(T0 + 30_000 + age_ms))

    assert JobRecord.objects.count() == left


def test_what_was_said_of_a_job_that_its_node_held_stays():
    store(**holding(job()))
    accounting()

    drop_unheard(NOW + timedelta(days=365))

    assert JobRecord.objects.count() == 2
