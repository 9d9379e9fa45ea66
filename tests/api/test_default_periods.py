"""Which period an answer is of where none is asked for."""

import pytest

from fleetwatch.jobs.models import Allocation
from fleetwatch.lib.intervals import HOUR_MS, from_ms, to_ms
from tests.api.conftest import NOW
from tests.costs.factories import a_gpu, a_job, a_rate, an_entry
from tests.diagnosis.told import cause, finding

pytestmark = pytest.mark.django_db

NOW_MS = to_ms(NOW)


def hold(gpu, job, *, hours_ago, hours):
    start_ms = NOW_MS - hours_ago * HOUR_MS
    Allocation.objects.create(
        gpu=gpu, job=job, source="slurm", asserted=[(start_ms, start_ms + hours * HOUR_MS)]
    )


def test_a_job_is_told_over_its_life(api):
    gpu = a_gpu()
    a_rate("2.00", gpu=gpu)
    job = a_job(key="slurm/della/7")
    hold(gpu, job, hours_ago=300, hours=2)
    for hours_ago in (300, 299):
        an_entry(gpu, "idle", job=job, tier="certain", start=from_ms(NOW_MS - hours_ago * HOUR_MS))

    told = api.get("/api/v1/jobs/slurm/della/7").json()

    assert (told["from"], told["to"]) == ("2026-10-21T12:00:00Z", "2026-10-21T14:00:00Z")
    assert told["cost_usd"]["total"] == 4.0
    assert api.get("/api/v1/jobs/slurm/della/7?range=24h").json()["cost_usd"]["total"] == 0.0


def test_a_job_that_never_held_a_gpu_has_the_default(api):
    a_job(key="slurm/della/8")

    assert api.get("/api/v1/jobs/slurm/della/8").json()["from"] == "2026-11-02T00:00:00Z"


def test_findings_are_those_of_seven_days_as_on_the_page(api):
    assert api.get("/api/v1/findings").json()["from"] == "2026-10-27T00:00:00Z"
    assert api.get("/api/v1/jobs").json()["from"] == "2026-11-02T00:00:00Z"


def test_a_finding_is_told_over_its_jobs_life(api):
    row = cause()
    hold(row.gpu, row.job, hours_ago=12, hours=1)
    found = finding(row.job)

    told = api.get(f"/api/v1/findings/{found.pk}").json()

    assert (told["from"], told["to"]) == ("2026-11-02T12:00:00Z", "2026-11-02T13:00:00Z")
