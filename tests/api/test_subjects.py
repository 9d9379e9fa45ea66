"""Jobs, nodes, GPUs, rates, incidents, reports."""

from datetime import timedelta

import pytest
from django.utils import timezone

from fleetwatch.costs.mapping.mappings import add_rule
from fleetwatch.costs.mapping.rule_terms import Conditions, Gives, Terms
from fleetwatch.reports.models import Report
from tests.alerts.factories import a_rule, an_incident
from tests.costs.factories import HOUR, HOUR_MS, a_gpu, a_job, a_rate, an_entry

pytestmark = pytest.mark.django_db


def test_a_job_says_its_hours_cost_and_that_no_cause_is_known(api):
    gpu = a_gpu(uuid="GPU-A", node="gpu-01", index=2)
    a_rate("4.00", gpu=gpu)
    job = a_job(
        key="slurm/della/4711",
        user="ann",
        team="nlp",
        name="train",
        scheduler="slurm",
        cluster="della",
        external_id="4711",
    )
    job.start_ms = 1_793_606_400_000  # 2026-11-02T08:00Z
    job.save(update_fields=["start_ms"])
    an_entry(gpu, "useful", 900_000, job=job, efficiency_source="sensors")
    an_entry(gpu, "underused", 900_000, job=job, tier="potential", efficiency_source="sensors")
    an_entry(gpu, "free", 1_800_000)

    answer = api.get("/api/v1/jobs/slurm/della/4711").json()

    assert (answer["key"], answer["name"], answer["user"], answer["team"], answer["id"]) == (
        "slurm/della/4711",
        "train",
        "ann",
        "nlp",
        "4711",
    )
    assert answer["start_at"] == "2026-11-02T08:00:00Z"
    assert answer["end_at"] is None
    assert answer["gpu_hours"]["useful"] == 0.25
    assert answer["cost_usd"]["total"] == 2.0
    assert answer["efficiency"] == 0.5
    assert answer["primary_cause"] == {
        "key": "undetermined",
        "title": "No known cause",
        "confidence": None,
        "evidence": [],
    }
    assert answer["savings_usd"] is None
    assert [(row["uuid"], row["label"], row["capacity_ms"]) for row in answer["gpus"]] == [
        ("GPU-A", "gpu-01 GPU 2", 1_800_000)
    ]


def test_a_job_says_how_it_ended_and_what_it_asked_for(api):
    labels = {"requested_gpus": "2", "allocated_gpus": "4", "exit_code": "1:0"}
    a_job(key="slurm/della/9", state="FAILED", end_ms=1_793_606_400_000, restarts=1, labels=labels)

    answer = api.get("/api/v1/jobs/slurm/della/9").json()

    assert (answer["state"], answer["end_at"], answer["restarts"], answer["labels"]) == (
        "FAILED",
        "2026-11-02T08:00:00Z",
        1,
        labels,
    )


def test_a_job_without_time_in_the_period_is_there_with_nothing(api):
    a_job(key="slurm/della/1")

    assert api.get("/api/v1/jobs/slurm/della/1").json()["capacity_ms"] == 0


def test_jobs_leaves_out_what_no_job_held(api):
    gpu = a_gpu()
    a_rate("1.00", gpu=gpu)
    an_entry(gpu, "idle", 600_000, job=a_job(key="a/b/1"), tier="certain")
    an_entry(gpu, "useful", 600_000, job=a_job(key="a/b/2", team=None))
    an_entry(gpu, "free", 2_400_000)

    answer = api.get("/api/v1/jobs").json()

    assert [row["key"] for row in answer["rows"]] == ["a/b/1", "a/b/2"]
    assert answer["totals"]["capacity_ms"] == 1_200_000
    assert answer["rows"][1]["team"] is None


def test_nodes_without_time_in_the_period_are_there_too(api):
    an_entry(a_gpu(node="gpu-01"))
    a_gpu(node="gpu-02", retired_ms=1)

    rows = api.get("/api/v1/nodes").json()["rows"]

    assert [(row["name"], row["gpu_count"], row["capacity_ms"]) for row in rows] == [
        ("gpu-01", 1, HOUR_MS),
        ("gpu-02", 0, 0),
    ]


def test_gpus_are_physical_and_name_their_instances(api):
    parent = a_gpu(uuid="GPU-A", model="A100-80 SXM")
    instance = a_gpu(uuid="MIG-A", model="A100-80 SXM", parent=parent, mig_profile="1g.10gb")
    a_rate("2.80", gpu=parent)
    an_entry(instance, "useful", 900_000)
    an_entry(parent, "free", 2_700_000)

    [row] = api.get("/api/v1/gpus").json()["rows"]
    part = api.get("/api/v1/gpus/MIG-A").json()

    assert (row["uuid"], row["capacity_ms"], row["instances"]) == (
        "GPU-A",
        HOUR_MS,
        [{"uuid": "MIG-A", "mig_profile": "1g.10gb"}],
    )
    assert (part["parent_uuid"], part["capacity_ms"], part["cost_usd"]["total"]) == (
        "GPU-A",
        900_000,
        0.7,
    )


def test_gpus_of_one_node(api):
    an_entry(a_gpu(node="gpu-01", uuid="GPU-A"))
    an_entry(a_gpu(node="gpu-02", uuid="GPU-B"))

    answer = api.get("/api/v1/gpus?node=gpu-02").json()

    assert [row["uuid"] for row in answer["rows"]] == ["GPU-B"]
    assert answer["totals"]["capacity_ms"] == HOUR_MS


def test_a_gpu_names_what_it_cost_from_when_to_when(api):
    gpu = a_gpu(uuid="GPU-A", node="gpu-01")
    a_rate("2.00", gpu=gpu, valid_from=HOUR)
    a_rate("1.00", node="gpu-01", valid_from=HOUR + timedelta(hours=2), is_example=False)

    spans = api.get("/api/v1/gpus/GPU-A").json()["rates"]

    assert spans == [
        {
            "usd_per_gpu_hour": 2.0,
            "is_example": False,
            "valid_from": "2026-11-02T09:00:00Z",
            "valid_to": "2026-11-02T11:00:00Z",
        },
        {
            "usd_per_gpu_hour": 1.0,
            "is_example": False,
            "valid_from": "2026-11-02T11:00:00Z",
            "valid_to": None,
        },
    ]


def test_rates_name_their_subject_and_source(api):
    a_rate("2.00", gpu=a_gpu(model="L4"), is_example=True, source="a list price")
    a_gpu(node="gpu-09")
    a_rate("0.50", node="gpu-09")

    rows = api.get("/api/v1/rates").json()["rows"]

    assert [
        (row["gpu_model"], row["node"], row["usd_per_gpu_hour"], row["is_example"], row["source"])
        for row in rows
    ] == [
        ("L4", None, 2.0, True, "a list price"),
        (None, "gpu-09", 0.5, False, ""),
    ]


def test_a_period_narrows_rates_and_mappings_to_those_that_held_in_it(api):
    gpu, days = a_gpu(model="L4"), timedelta(days=1)
    for usd, start, end in (("1.00", 0, 1), ("2.00", 1, 2), ("3.00", 2, None)):
        a_rate(
            usd,
            gpu=gpu,
            valid_from=HOUR + start * days,
            valid_to=None if end is None else HOUR + end * days,
        )
        add_rule(
            Terms(Conditions(user=usd), Gives(team="nlp"), valid_from=HOUR + start * days),
            now=HOUR,
        )
    second = {"from": (HOUR + days).isoformat(), "to": (HOUR + 2 * days).isoformat()}

    def rates(**query):
        rows = api.get("/api/v1/rates", query_params=query).json()["rows"]
        return [row["usd_per_gpu_hour"] for row in rows]

    def rules(**query):
        rows = api.get("/api/v1/mappings", query_params=query).json()["rows"]
        return [(row["place"], row["user"]) for row in rows]

    assert rates() == [1.0, 2.0, 3.0]
    assert rates(**second) == [2.0]
    # rules without an end hold on: the third begins where the period ends
    assert rules() == [(1, "1.00"), (2, "2.00"), (3, "3.00")]
    assert rules(**second) == [(1, "1.00"), (2, "2.00")]


def test_every_page_of_all_rates_has_its_own(api):
    gpu = a_gpu(model="L4")
    for number in range(3):
        a_rate(
            f"{number + 1}.00",
            gpu=gpu,
            valid_from=HOUR + timedelta(days=number),
            valid_to=HOUR + timedelta(days=number + 1),
        )

    first = api.get("/api/v1/rates?limit=2").json()
    second = api.get(f"/api/v1/rates?limit=2&cursor={first['next_cursor']}").json()

    found = [row["usd_per_gpu_hour"] for row in (*first["rows"], *second["rows"])]
    assert found == [1.0, 2.0, 3.0]
    assert second["next_cursor"] is None
    # a list whose figures take time to sum does not take that period
    assert api.get(f"/api/v1/nodes?cursor={first['next_cursor']}").status_code == 422


def test_incidents_are_those_that_were_open_in_the_period(api):
    now = timezone.now()
    rule = a_rule(name="idle jobs")
    days = timedelta(days=1)
    an_incident(rule, "a/b/1", opened_at=now - 5 * days, resolved_at=now - 2 * days)
    an_incident(rule, "a/b/2", opened_at=now - 5 * days, resolved_at=now - days / 2)
    an_incident(rule, "a/b/3", opened_at=now - 3 * days, facts={"facts": {"gpus": 2}})
    an_incident(rule, "a/b/4", opened_at=now - days / 2, fired_ms=None, state="pending")

    rows = api.get("/api/v1/incidents").json()["rows"]

    assert [(row["subject"], row["rule"], row["facts"]) for row in rows] == [
        ("a/b/3", "idle jobs", {"gpus": 2}),
        ("a/b/2", "idle jobs", {}),
    ]


def test_reports_are_listed_with_what_they_said(api):
    now = timezone.now()
    Report.objects.create(
        kind="weekly_digest",
        start=now - timedelta(days=7),
        end=now,
        computed_at=now,
        content={"wasted_usd": "12.50"},
    )

    [row] = api.get("/api/v1/reports").json()["rows"]

    assert (row["kind"], row["content"]) == ("weekly_digest", {"wasted_usd": "12.50"})


def test_mapping_rules_are_listed_in_the_order_in_which_they_are_asked(api):
    for user, priority in (("bob", 200), ("ann", 1)):
        add_rule(
            Terms(Conditions(user=user), Gives(team="nlp"), valid_from=HOUR, priority=priority),
            now=HOUR,
        )

    rows = api.get("/api/v1/mappings").json()["rows"]

    assert [(row["place"], row["user"], row["team"], row["project"]) for row in rows] == [
        (1, "ann", "nlp", None),
        (2, "bob", "nlp", None),
    ]
