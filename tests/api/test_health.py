"""/healthz, /readyz, /metrics."""

from datetime import timedelta
from ipaddress import ip_network

import pytest
from django.db import OperationalError, connection
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from fleetwatch.inventory.models import Node
from fleetwatch.operations.models import JobRun
from fleetwatch.operations.services import beat
from fleetwatch.telemetry.models import TouchedHour
from tests.api.conftest import NOW
from tests.costs.factories import HOUR, a_gpu, a_job, a_rate, a_run, an_entry

pytestmark = pytest.mark.django_db


def samples(client):
    answer = client.get("/metrics")
    assert answer["Content-Type"].startswith("text/plain")
    families = text_string_to_metric_families(answer.content.decode())
    return {
        _key(sample.name, *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


def _key(name, *labels):
    return (name, frozenset(labels))


def test_the_process_answers_without_asking_anything(django_assert_num_queries):
    with django_assert_num_queries(0):
        assert Client().get("/healthz").json() == {"ok": True}


def test_ready_before_the_first_batch():
    beat("worker", NOW)

    answer = Client().get("/readyz")

    assert (answer.status_code, answer.json()) == (200, {"ready": True, "missing": []})


@pytest.mark.parametrize(("age_s", "status"), [(59, 200), (60, 200), (61, 503)])
def test_a_worker_that_was_silent_for_over_a_minute_is_missing(age_s, status):
    beat("worker", NOW - timedelta(seconds=age_s))

    assert Client().get("/readyz").status_code == status


def test_a_worker_that_never_lived_is_missing():
    answer = Client().get("/readyz")

    assert (answer.status_code, answer.json()) == (503, {"ready": False, "missing": ["worker"]})


def test_redis_that_does_not_answer_is_missing_and_its_address_stays_secret(settings):
    beat("worker", NOW)
    settings.REDIS_URL = "redis://:secret@127.0.0.1:1/0"

    answer = Client().get("/readyz")

    assert (answer.status_code, answer.json()) == (503, {"ready": False, "missing": ["redis"]})


def test_a_database_that_does_not_answer_takes_the_worker_with_it():
    def down(execute, sql, params, many, context):
        raise OperationalError("the server closed the connection")

    with connection.execute_wrapper(down):
        answer = Client().get("/readyz")

    assert (answer.status_code, answer.json()["missing"]) == (503, ["database", "worker"])


def test_metrics_tell_gpu_seconds_and_dollars_by_state_team_and_model(api):
    gpu = a_gpu(model="H100 SXM", last_ms=1_793_664_000_000)  # 2026-11-03T00:00Z
    a_rate("3.60", gpu=gpu)
    an_entry(gpu, "idle", 1_800_000, job=a_job(team="nlp"), tier="certain")
    an_entry(gpu, "free", 1_800_000)

    found = samples(api)

    assert found[_key("fleetwatch_day_gpu_seconds", "idle", "nlp", "H100 SXM")] == 1800
    assert found[_key("fleetwatch_day_cost_dollars", "idle", "nlp", "H100 SXM")] == 1.8
    assert found[_key("fleetwatch_day_gpu_seconds", "free", "unallocated", "H100 SXM")] == 1800
    assert found[_key("fleetwatch_day_waste_dollars", "certain", "nlp", "H100 SXM")] == 1.8
    assert found[_key("fleetwatch_gpus", "all")] == 1


def test_metrics_count_gpus_that_nobody_observes_apart(api):
    now_ms = 1_793_664_000_000  # 2026-11-03T00:00Z
    for condition in ("free", "unobserved", "unobserved"):
        gpu = a_gpu(last_ms=now_ms)
        a_run(
            gpu,
            condition=condition,
            state_ms={condition: 60_000},
            start_ms=now_ms - 60_000,
            end_ms=now_ms,
        )

    found = samples(api)

    counts = [
        found[_key("fleetwatch_gpus", which)]
        for which in ("all", "judged", "unobserved", "allocated")
    ]
    assert counts == [3, 3, 2, 0]


def test_metrics_cover_24_settled_hours(api):
    gpu = a_gpu(model="L4")
    for hours_ago in (1, 2, 25, 26):
        an_entry(gpu, "free", 1_000 * hours_ago, start=NOW - timedelta(hours=hours_ago))

    assert samples(api)[_key("fleetwatch_day_gpu_seconds", "free", "unallocated", "L4")] == 2 + 25


def test_metrics_tell_how_the_pipeline_does(api):
    for name, age in (("a", 30), ("b", 1800), ("c", 7200), ("d", None)):
        Node.objects.create(
            name=name, last_received_at=None if age is None else NOW - timedelta(seconds=age)
        )
    TouchedHour.objects.create(node_id=1, hour=HOUR)
    beat("worker", NOW - timedelta(seconds=5))
    JobRun.objects.create(
        name="ledger.post",
        started_at=NOW - timedelta(minutes=3),
        finished_at=NOW - timedelta(minutes=2),
        ok=True,
    )
    JobRun.objects.create(name="ledger.post", started_at=NOW - timedelta(minutes=4), ok=False)

    found = samples(api)

    assert [
        found[_key("fleetwatch_nodes", age)] for age in ("within_2m", "within_1h", "older", "never")
    ] == [1, 1, 1, 1]
    assert found[_key("fleetwatch_ingest_lag_seconds")] == 30
    assert found[_key("fleetwatch_queue_depth", "post")] == 1
    assert found[_key("fleetwatch_worker_heartbeat_age_seconds")] == 5
    assert found[_key("fleetwatch_hour_runs", "ledger.post", "ok")] == 1
    assert found[_key("fleetwatch_hour_runs", "ledger.post", "failed")] == 1
    assert found[_key("fleetwatch_last_run_duration_seconds", "ledger.post")] == 60


def test_metrics_of_an_empty_instance_name_no_lag(api):
    found = samples(api)

    assert _key("fleetwatch_ingest_lag_seconds") not in found
    assert found[_key("fleetwatch_queue_depth", "seal")] == 0


def test_an_allowed_address_needs_no_token_and_a_claimed_one_does(settings):
    settings.METRICS_ALLOW = [ip_network("10.0.0.0/8")]

    assert Client(REMOTE_ADDR="10.1.2.3").get("/metrics").status_code == 200
    assert (
        Client(REMOTE_ADDR="192.0.2.1")
        .get("/metrics", headers={"x-forwarded-for": "10.1.2.3"})
        .status_code
        == 401
    )
    assert Client(REMOTE_ADDR="").get("/metrics").status_code == 401
