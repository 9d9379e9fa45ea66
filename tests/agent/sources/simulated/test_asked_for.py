"""What simulated jobs ask their scheduler for."""

import pytest

from agent.sources.simulated.asked_for import HOUR_MS, LIMITS_H, request_of
from agent.sources.simulated.schedule import jobs_between
from agent.sources.simulated.spec import parse_spec

WEEK_MS = 7 * 24 * HOUR_MS
START_MS = 1_795_000_000_000 // WEEK_MS * WEEK_MS


@pytest.fixture(scope="module")
def jobs():
    spec = parse_spec("8xH100,seed=7,mix=mixed,cluster=sim")
    return jobs_between(spec, START_MS, START_MS + WEEK_MS)


def test_a_job_asks_for_its_gpus_with_8_to_16_processors_and_64_gib_each(jobs):
    for job in jobs:
        labels = request_of(job).labels
        gpus = len(job.gpus)
        assert labels["requested_gpus"] == str(gpus)
        assert 8 * gpus <= int(labels["requested_cpus"]) <= 16 * gpus
        assert labels["requested_memory"] == f"{64 * gpus}G"


def test_its_time_limit_is_one_that_people_write_and_longer_than_it_runs(jobs):
    limited = [job for job in jobs if job.archetype.kind != "service"]
    for job in limited:
        minutes = int(request_of(job).labels["time_limit_minutes"])
        assert minutes * 60_000 >= 1.1 * (job.end_ms - job.start_ms)
        assert minutes // 60 in LIMITS_H or minutes // 60 > LIMITS_H[-1]
    assert len(limited) > 10


def test_a_service_has_no_time_limit(jobs):
    services = [job for job in jobs if job.archetype.kind == "service"]

    assert services
    assert not any("time_limit_minutes" in request_of(job).labels for job in services)


def test_it_was_submitted_before_it_began_and_always_at_the_same_moment(jobs):
    for job in jobs:
        assert 1_000 <= job.start_ms - request_of(job).submit_ms <= 5_400_000
        assert request_of(job) == request_of(job)
