"""A job that a broken GPU ended says so first on its page, and how it goes on."""

from datetime import timedelta

import pytest

from fleetwatch.alerts.models import Rule
from fleetwatch.costs.models import Rate
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Allocation, Job
from fleetwatch.ledger.models import Posted
from fleetwatch.lib.intervals import HOUR_MS, MINUTE_MS, to_ms
from tests.dashboard import factories
from tests.dashboard.factories import NOW
from tests.dashboard.shown_incidents import incident, text
from tests.diagnosis import told
from tests.markup import in_text, tight

pytestmark = pytest.mark.django_db
END_MS = to_ms(NOW) - HOUR_MS
JOB = "/jobs/slurm/della/9"


def a_failed_run(*, failed_ms: int, reason: str = "xid_79", **fields) -> Job:
    """Two hours on two GPUs at $2 an hour, of which GPU 3 fails then."""
    factories.rate("2.00")
    node = factories.node("h100-01")
    start_ms = END_MS - 2 * HOUR_MS
    facts = {"start_ms": start_ms, "end_ms": END_MS, "state": "COMPLETED", "kind": "batch"}
    job = factories.job("slurm/della/9", **facts | fields)
    for index in (2, 3):
        gpu = factories.gpu(node, index=index)
        factories.hold(gpu, job, hours_ago=3, hours=2)
        for hours_ago in (3, 2):
            factories.entry(gpu, hours_ago=hours_ago, held_by=job).save()
    outages = [[failed_ms, None, reason, False]]
    Posted.objects.update_or_create(gpu=gpu, defaults={"spans": [], "outages": outages})
    return job


def page(client) -> str:
    return in_text(tight(text(client, JOB)))


def test_a_job_that_a_fault_ended_says_which_what_is_lost_and_to_restart(admin):
    a_failed_run(failed_ms=END_MS + MINUTE_MS)

    shown = page(admin)

    assert "Ended at Fri 20 Nov, 11:00 when h100-01 GPU 3 failed" in shown
    assert "XID 79: it has fallen off the bus" in shown
    assert "What it did since its last checkpoint is lost." in shown
    assert "all of the run, $8.00" in shown
    assert "Restart it from its last checkpoint, on other GPUs: h100-01 GPU 3 still can’t" in shown
    assert "word for how it ended is “completed”" in shown


def test_it_leads_to_the_faults_incident(admin):
    job = a_failed_run(failed_ms=END_MS)
    facts = {"kind": "gpu", "word": "faulty", "owner": ""}
    rule = Rule.objects.get(condition="gpu_fault")
    uuid = job.allocations.get(gpu__index=3).gpu.uuid
    fault = incident(uuid, rule=rule, facts=facts, since_ms=END_MS, until_ms=to_ms(NOW))

    assert f'href="/incidents/{fault.pk}">The fault’s incident</a>' in tight(text(admin, JOB))


def test_the_curves_are_of_the_gpu_that_failed_and_say_so_unless_another_is_asked_for(admin):
    a_failed_run(failed_ms=END_MS)
    other = Job.objects.get().allocations.get(gpu__index=2).gpu.uuid

    assert "GPU 3 of h100-01, which failed" in page(admin)
    assert "GPU 2 of h100-01 states" in in_text(tight(text(admin, f"{JOB}?gpu={other}")))


def test_time_with_its_memory_errors_before_is_told_as_what_its_sums_say_of_it(admin):
    job = a_failed_run(failed_ms=END_MS)
    gpu = job.allocations.get(gpu__index=3).gpu
    start = NOW - timedelta(hours=2)
    told.cause("gpu_fault", of=job, on=gpu, start=start, hours=0.5, waste="")

    shown = page(admin)

    assert "new memory errors in 0.50 GPU-hours of this run, from Fri 20 Nov, 10:00 on." in shown
    assert "the sums below count them as work: check what it computed from then on." in shown


@pytest.mark.parametrize(
    ("failed_ms", "fields"),
    [
        (END_MS + 3 * MINUTE_MS, {}),
        (END_MS - 3 * MINUTE_MS, {}),
        (END_MS, {"reason": "drained"}),
        (END_MS, {"end_ms": None, "state": "RUNNING"}),
    ],
)
def test_a_job_that_ended_without_a_fault_or_goes_on_says_nothing_of_one(admin, failed_ms, fields):
    a_failed_run(failed_ms=failed_ms, **fields)

    assert "ending-fault" not in text(admin, JOB)


def test_of_a_session_what_was_not_saved_is_lost(admin):
    a_failed_run(failed_ms=END_MS, kind="interactive")

    shown = page(admin)

    assert "What was not saved is lost: variables, open shells." in shown
    assert "Start it again, and open what was saved last" in shown


def test_the_most_that_is_lost_is_a_sum_beside_what_was_wasted_and_the_end_a_mark(admin):
    a_failed_run(failed_ms=END_MS)

    shown = page(admin)

    assert "Lost, at most $8.00 not in wasted" in shown
    assert "completed ended by a GPU fault" in shown


def test_the_faults_finding_says_the_most_that_each_job_lost_which_it_ended(admin):
    job = a_failed_run(failed_ms=END_MS)
    gpu = job.allocations.get(gpu__index=3).gpu
    told.capacity("gpu_fault", on=gpu, start=NOW - timedelta(hours=1))
    of_node = told.place("gpu_fault", node=gpu.node, first_ms=END_MS)

    jobs = in_text(tight(text(admin, f"/findings/{of_node.pk}"))).partition("Affected jobs")[2]

    assert "Held until Lost, at most" in jobs
    assert "Fri 20 Nov, 11:00 $8.00" in jobs


def test_of_a_session_no_run_is_lost_in_dollars(admin):
    a_failed_run(failed_ms=END_MS, kind="interactive")

    assert "Lost, at most" not in page(admin)


def test_lists_and_runs_say_that_a_fault_ended_a_job_that_used_its_gpus_well(admin):
    a_failed_run(failed_ms=END_MS)

    listed = in_text(tight(text(admin, "/jobs?from=now-6h&to=now")))

    assert "GPU can't work: it ended the job" in listed.replace("&#x27;", "'")
    assert " GPU fault " in listed


def test_jobs_that_a_fault_ended_are_those_of_its_cause_though_they_lost_no_time_to_it(admin):
    a_failed_run(failed_ms=END_MS)

    shown = in_text(tight(text(admin, "/jobs?from=now-6h&to=now&cause=gpu_fault")))

    assert "1 job cost $8.00" in shown
    assert "was wasted; lost at most $8.00" in shown
    assert "Lost, at most" in shown
    assert "most lost" in shown
    assert "Nothing to change: less than" not in shown
    assert "No job here" in text(admin, "/jobs?from=now-6h&to=now&cause=gpu_fault&user=nobody")
    assert "it ended when a GPU failed" in shown
    assert "since its last checkpoint is lost, and not in wasted" in shown


def test_jobs_that_a_fault_ended_are_listed_by_what_they_lost_at_most(admin):
    """The one of four GPU-hours before the one of half an hour, though that is newer."""
    a_failed_run(failed_ms=END_MS)
    gpu = GPU.objects.get(index=3)
    facts = {"start_ms": END_MS - HOUR_MS, "end_ms": END_MS, "state": "COMPLETED", "kind": "batch"}
    small = factories.job("slurm/della/8", name="small", **facts)
    factories.hold(gpu, small, hours_ago=2, hours=1)
    factories.entry(gpu, hours_ago=2, held_by=small, gpu_ms=HOUR_MS // 2).save()

    page = text(admin, "/jobs?from=now-6h&to=now&cause=gpu_fault")
    by_name = text(admin, "/jobs?from=now-6h&to=now&cause=gpu_fault&sort=start")

    assert page.index("/jobs/slurm/della/9") < page.index("/jobs/slurm/della/8")
    assert by_name.index("/jobs/slurm/della/8") < by_name.index("/jobs/slurm/della/9")
    assert 'aria-sort="descending"' in page.partition("Lost, at most")[0].rpartition("<th")[2]
    assert "Lost, at most" not in text(admin, "/jobs?from=now-6h&to=now")


def test_a_job_that_ended_at_a_drain_is_none_of_them_and_an_empty_list_has_no_head(admin):
    a_failed_run(failed_ms=END_MS, reason="drained")

    shown = in_text(tight(text(admin, "/jobs?from=now-6h&to=now&cause=gpu_fault")))

    assert "No job here" in shown
    assert "<thead>" not in text(admin, "/jobs?from=now-6h&to=now&cause=gpu_fault")


def test_a_job_that_had_left_the_gpu_long_before_was_not_ended_by_its_fault(admin):
    """It ran on GPU 3 for an hour, was put back into the queue, and ended on another GPU."""
    job = a_failed_run(failed_ms=END_MS)
    elsewhere = factories.gpu(factories.node("h100-02"), index=0)
    start_ms = END_MS - 3 * HOUR_MS
    Allocation.objects.filter(job=job).update(asserted=[(start_ms, start_ms + HOUR_MS)])
    factories.hold(elsewhere, job, hours_ago=3, hours=2)

    assert "ending-fault" not in text(admin, JOB)
    assert "it ended the job" not in text(admin, "/jobs?from=now-6h&to=now")
    assert "No job here" in text(admin, "/jobs?from=now-6h&to=now&cause=gpu_fault")


def test_a_gpu_that_fell_silent_some_minutes_before_it_was_lost_ended_its_job(admin):
    job = a_failed_run(failed_ms=END_MS)
    heard = (END_MS - 2 * HOUR_MS, END_MS - 10 * MINUTE_MS)
    Allocation.objects.filter(job=job).update(asserted=[heard])

    assert "ending-fault" in text(admin, JOB)
    assert "GPU can&#x27;t work: it ended the job $8.00" in in_text(
        tight(text(admin, "/jobs?from=now-6h&to=now&cause=gpu_fault"))
    )


def test_the_list_says_of_a_restarted_job_what_its_last_run_lost_as_its_page_does(admin):
    """An earlier run of two hours on the same GPUs lies within the longer one of another job."""
    job = a_failed_run(failed_ms=END_MS, restarts=1)
    for gpu in GPU.objects.filter(index__in=(2, 3)):
        factories.hold(gpu, job, hours_ago=7, hours=1, source="earlier")
        factories.entry(gpu, hours_ago=7, held_by=job).save()
    node = factories.node("h100-02")
    gpu = factories.gpu(node, index=0)
    start_ms = END_MS - 8 * HOUR_MS
    facts = {"start_ms": start_ms, "end_ms": END_MS, "state": "FAILED", "kind": "batch"}
    longer = factories.job("slurm/della/10", **facts)
    factories.hold(gpu, longer, hours_ago=9, hours=8)
    for hours_ago in range(2, 10):
        factories.entry(gpu, hours_ago=hours_ago, held_by=longer).save()
    Posted.objects.create(gpu=gpu, spans=[], outages=[[END_MS, None, "xid_79", False]])

    listed = in_text(tight(text(admin, "/jobs?from=now-12h&to=now&cause=gpu_fault")))

    assert "Lost, at most $8.00" in page(admin)
    assert "lost at most $24.00" in listed
    assert "GPU can&#x27;t work: it ended the job $8.00 6.00 $12.00" in listed


@pytest.mark.parametrize("without", ["h100-01", ""])
def test_what_a_run_without_a_rate_lost_is_not_known(admin, without):
    """Of all its GPUs, or of one of two nodes: at most $4.00 would be too little."""
    job = a_failed_run(failed_ms=END_MS)
    if without:
        Rate.objects.all().delete()
    else:
        elsewhere = factories.gpu(factories.node("l40s-01"), model=factories.gpu_model("L40S"))
        factories.hold(elsewhere, job, hours_ago=3, hours=2)
        factories.entry(elsewhere, hours_ago=3, held_by=job).save()
    gpu = job.allocations.get(gpu__index=3).gpu
    told.capacity("gpu_fault", on=gpu, start=NOW - timedelta(hours=1))
    of_node = told.place("gpu_fault", node=gpu.node, first_ms=END_MS)

    listed = in_text(tight(text(admin, "/jobs?from=now-6h&to=now&cause=gpu_fault")))
    hurt = in_text(tight(text(admin, f"/findings/{of_node.pk}"))).partition("Affected jobs")[2]

    assert "Lost, at most" not in page(admin)
    assert "ost at most" not in listed
    assert "Fri 20 Nov, 11:00 –" in hurt


def test_beyond_so_many_restarted_jobs_what_one_lost_is_not_known(admin, monkeypatch):
    a_failed_run(failed_ms=END_MS, restarts=1)
    url = "/jobs?from=now-6h&to=now&cause=gpu_fault"
    assert "lost at most $8.00" in in_text(tight(text(admin, url)))

    monkeypatch.setattr("fleetwatch.dashboard.fault_ends.MOST_RESTARTED", 0)

    assert "ost at most" not in in_text(tight(text(admin, url)))
