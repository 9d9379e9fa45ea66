"""Jobs that wait and that waited, in the API and /metrics."""

import pytest

from fleetwatch.jobs.models import Job
from fleetwatch.jobs.selectors import LONGEST_WAIT_MS
from fleetwatch.lib.intervals import to_ms
from tests.api.conftest import NOW
from tests.api.test_health import _key, samples
from tests.api.test_job_sources import T0, report
from tests.costs.factories import a_job
from tests.ingest.factories import job

pytestmark = pytest.mark.django_db

MINUTE = 60_000
HOUR_MS = 60 * MINUTE
NOW_MS = to_ms(NOW)


def wait_of(api, **facts):
    a_job(key="slurm/della/9", **facts)
    answer = api.get("/api/v1/jobs/slurm/della/9").json()
    Job.objects.all().delete()
    return answer["wait_s"]


def test_a_job_says_how_long_it_waited_and_where(api):
    a_job(
        key="slurm/della/9",
        submit_ms=T0,
        start_ms=T0 + 90_000,
        labels={"partition": "gpu", "qos": "high"},
    )

    answer = api.get("/api/v1/jobs/slurm/della/9").json()

    assert (answer["wait_s"], answer["partition"], answer["qos"]) == (90, "gpu", "high")


@pytest.mark.parametrize(
    ("facts", "wait_s"),
    [
        ({"submit_ms": T0, "start_ms": T0}, 0),
        ({"submit_ms": T0 + 1, "start_ms": T0}, None),  # two clocks
        ({"submit_ms": T0}, None),
        ({"start_ms": T0}, None),
    ],
)
def test_a_wait_that_is_not_known_is_null(api, facts, wait_s):
    assert wait_of(api, **facts) == wait_s


def test_a_job_without_such_labels_has_null(api):
    a_job(key="slurm/della/9")

    answer = api.get("/api/v1/jobs/slurm/della/9").json()

    assert (answer["partition"], answer["qos"]) == (None, None)


def held(cluster):
    key = f"slurm/{cluster}/1"
    return {
        "jobs": [job(key)],
        "allocations": [{"gpu": 0, "job": 0, "source": "slurm", "start_ms": T0}],
    }


def pending(minute, *gpus):
    return {
        "host": {
            "start_ms": [T0 + minute * MINUTE + step * 10_000 for step in range(len(gpus))],
            "pending_gpus": list(gpus),
        }
    }


def test_the_queue_of_a_cluster_is_what_its_nodes_said_last(api):
    report(7, node="n1", **held("della"), **pending(7, 8, 9))
    report(8, node="n2", **held("della"), **pending(8, 4, None))
    report(8, node="n3", **held("tiger"), **pending(8, 0))
    report(8, node="n4", **held("silent"))
    report(8, node="n5", **held("down"), **pending(8, 5), ok=False)

    rows = api.get("/api/v1/jobs").json()["queues"]
    found = samples(api)

    assert [
        (row["cluster"], row["partition"], row["pending_gpus"], row["told_by"]) for row in rows
    ] == [
        ("della", None, 4, "agent"),
        ("tiger", None, 0, "agent"),
    ]
    assert rows[0]["told_at"] == "2026-11-02T23:58:00Z"
    assert (
        found[_key("fleetwatch_pending_gpus", "della")],
        found[_key("fleetwatch_pending_gpus", "tiger")],
    ) == (4, 0)


def test_nothing_is_said_of_a_queue_that_nobody_told_of_lately(api):
    report(-10, node="n1", sequence=1, **held("della"), **pending(-10, 8))

    assert api.get("/api/v1/jobs").json()["queues"] == []


def test_jobs_that_wait_are_counted_by_partition_as_accounting_told_them(api):
    gpu = {"partition": "gpu", "requested_gpus": "4"}
    a_job(state="PENDING", cluster="della", submit_ms=NOW_MS - HOUR_MS, labels=gpu)
    a_job(state="PENDING", cluster="della", submit_ms=NOW_MS - 2 * HOUR_MS, labels=gpu)
    a_job(state="PENDING", cluster="della", submit_ms=NOW_MS, labels={"requested_gpus": "many"})
    a_job(state="PENDING", cluster="della", submit_ms=NOW_MS - LONGEST_WAIT_MS - 1, labels=gpu)
    a_job(state="RUNNING", cluster="della", submit_ms=NOW_MS, start_ms=NOW_MS, labels=gpu)

    rows = api.get("/api/v1/jobs").json()["queues"]

    shown = [
        (
            row["cluster"],
            row["partition"],
            row["pending_jobs"],
            row["pending_gpus"],
            row["oldest_submit_at"],
        )
        for row in rows
    ]
    assert shown == [
        ("della", "", 1, 0, "2026-11-03T00:00:00Z"),
        ("della", "gpu", 2, 8, "2026-11-02T22:00:00Z"),
    ]
    assert {row["told_by"] for row in rows} == {"accounting"}
    assert samples(api)[_key("fleetwatch_pending_jobs", "della", "gpu")] == 2


def test_metrics_tell_how_long_the_jobs_of_a_day_had_waited(api):
    gpu = {"partition": "gpu"}
    for start_ms, wait_s in (
        (NOW_MS - 1, 30),
        (NOW_MS - 24 * HOUR_MS, 60),
        (NOW_MS - 24 * HOUR_MS - 1, 500),
        (NOW_MS, 500),
    ):
        a_job(cluster="della", submit_ms=start_ms - wait_s * 1000, start_ms=start_ms, labels=gpu)
    a_job(cluster="della", start_ms=NOW_MS - 1, labels=gpu)

    found = samples(api)

    assert found[_key("fleetwatch_day_started_jobs", "della", "gpu")] == 2
    assert found[_key("fleetwatch_day_job_wait_seconds", "della", "gpu")] == 90


def test_a_job_that_its_scheduler_names_no_longer_is_ended(api):
    began = T0 - 30 * MINUTE
    known = {"jobs": [job("slurm/della/1", state="RUNNING", start_ms=began)]}
    holds = {"allocations": [{"gpu": 0, "job": 0, "source": "slurm", "start_ms": began}]}
    report(0, sequence=1, start_ms=began, **known, **holds)
    running = api.get("/api/v1/jobs/slurm/della/1").json()["state"]
    report(8)

    assert (running, api.get("/api/v1/jobs/slurm/della/1").json()["state"]) == ("RUNNING", "ENDED")
