"""/fleet/summary and /waste, against values worked out by hand."""

import pytest

from fleetwatch.lib.intervals import to_ms
from tests.costs.factories import HOUR, HOUR_MS, a_gpu, a_job, a_rate, a_run, an_entry

pytestmark = pytest.mark.django_db

STATES = {
    "useful",
    "underused",
    "stalled",
    "idle",
    "starting",
    "orphaned",
    "free",
    "unavailable",
    "unobserved",
}


def a_small_fleet():
    """Two GPUs for one hour: 3.60 and 7.20 dollars."""
    first, second = a_gpu(node="gpu-01", model="H100 SXM"), a_gpu(node="gpu-02", model="L4")
    a_rate("3.60", gpu=first)
    a_rate("7.20", gpu=second, is_example=True)
    ann, bob = (
        a_job(key="slurm/della/1", user="ann", team="nlp"),
        a_job(key="slurm/della/2", user="bob", team="vision"),
    )
    an_entry(first, "useful", 1_800_000, job=ann, efficiency_source="sensors", energy_j=1_000_000.0)
    an_entry(first, "idle", 1_200_000, job=ann, tier="certain")
    an_entry(first, "unobserved", 600_000)
    an_entry(second, "stalled", 900_000, job=bob, tier="probable")
    an_entry(second, "free", 2_700_000, tier="potential")


def test_the_summary_is_the_fleet_in_milliseconds_and_dollars(api):
    a_small_fleet()

    answer = api.get("/api/v1/fleet/summary").json()

    assert answer["capacity_ms"] == 2 * HOUR_MS
    assert set(answer["states"]) == STATES
    assert sum(answer["states"].values()) == answer["capacity_ms"]
    assert answer["states"]["idle"] == 1_200_000
    assert answer["coverage"] == pytest.approx(6_600_000 / 7_200_000)
    assert answer["cost_usd"]["total"] == 10.8
    assert answer["cost_usd"]["states"] == dict.fromkeys(STATES, 0) | {
        "useful": 1.8,
        "idle": 1.2,
        "unobserved": 0.6,
        "stalled": 1.8,
        "free": 5.4,
    }
    assert answer["waste"] == {
        "certain": {"gpu_hours": pytest.approx(1 / 3), "usd": 1.2},
        "probable": {"gpu_hours": 0.25, "usd": 1.8},
        "potential": {"gpu_hours": 0.75, "usd": 5.4},
        "wasted": {"gpu_hours": pytest.approx(7 / 12), "usd": 3.0},
        # and the ten minutes nobody saw
        "wasted_at_most": {"gpu_hours": pytest.approx(9 / 12), "usd": 3.6},
    }
    # half an hour useful, 20 min idle, 15 stalled, of 110 observed
    assert answer["occupancy"] == pytest.approx(3.9 / 6.6)
    assert answer["activity"] == pytest.approx(1.8 / 3.9)
    assert answer["has_example_rates"] is True
    assert answer["energy_j"] == 1_000_000
    assert answer["unpriced_ms"] == 0


def test_what_only_utilisation_tells_and_what_services_wait_are_said_in_time_and_dollars(api):
    gpu = a_gpu()
    a_rate("3.60", gpu=gpu)
    batch, service = a_job(), a_job(kind="service")
    an_entry(gpu, "useful", 1_000_000, job=batch, efficiency_source="sensors")
    an_entry(gpu, "useful", 500_000, job=batch, efficiency_source="none")
    an_entry(gpu, "stalled", 900_000, job=batch, tier="probable")
    an_entry(gpu, "stalled", 1_200_000, job=service, tier="potential")

    answer = api.get("/api/v1/fleet/summary").json()

    assert (answer["states"]["useful"], answer["states"]["stalled"]) == (1_500_000, 2_100_000)
    assert (answer["busy_only_ms"], answer["busy_only_usd"]) == (500_000, 0.5)
    assert (answer["waiting_ms"], answer["waiting_usd"]) == (1_200_000, 1.2)


def test_the_default_period_is_the_last_24_hours(api):
    answer = api.get("/api/v1/fleet/summary").json()

    assert (answer["from"], answer["to"]) == ("2026-11-02T00:00:00Z", "2026-11-03T00:00:00Z")
    assert (
        answer["capacity_ms"],
        answer["coverage"],
        answer["energy_j"],
        answer["efficiency"],
    ) == (0, None, None, None)


def test_an_answer_is_of_exactly_the_period_and_of_nothing_to_come(api):
    gpu = a_gpu()
    an_entry(gpu, start=HOUR)
    a_run(gpu, start_ms=to_ms(HOUR), end_ms=to_ms(HOUR) + 3_600_000, state_ms={"useful": 3_600_000})

    part = api.get("/api/v1/fleet/summary?from=2026-11-02T09:10&to=2026-11-02T09:20Z").json()
    open_end = api.get("/api/v1/fleet/summary?from=2026-11-02T09:10&to=2026-11-04").json()

    assert (part["from"], part["to"]) == ("2026-11-02T09:10:00Z", "2026-11-02T09:20:00Z")
    assert (part["covered_from"], part["covered_to"]) == (
        "2026-11-02T09:10:00Z",
        "2026-11-02T09:20:00Z",
    )
    assert (part["capacity_ms"], open_end["capacity_ms"]) == (600_000, 3_000_000)
    assert (open_end["to"], open_end["covered_to"]) == (
        "2026-11-04T00:00:00Z",
        "2026-11-03T00:00:00Z",
    )


def test_the_summary_says_what_the_fleet_costs_now(api):
    gpu = a_gpu(last_ms=1_793_664_000_000)
    a_rate("2.50", gpu=gpu)
    now_ms = 1_793_664_000_000  # 2026-11-03T00:00Z
    a_run(
        gpu,
        job=a_job(),
        condition="quiet",
        start_ms=now_ms - HOUR_MS,
        end_ms=now_ms,
        state_ms={"idle": HOUR_MS},
    )

    now = api.get("/api/v1/fleet/summary").json()["now"]

    assert (
        now["usd_per_hour"],
        now["gpus"],
        now["allocated_gpus"],
        now["idle_gpus"],
        now["idle_usd_per_hour"],
    ) == (2.5, 1, 1, 1, 2.5)
    assert now["judged_gpus"] == 1


def test_the_summary_counts_what_nobody_observes_apart_and_documents_it(api):
    now_ms = 1_793_664_000_000  # 2026-11-03T00:00Z
    span = {"start_ms": now_ms - HOUR_MS, "end_ms": now_ms}
    states = ("useful", "useful", "free", *["unobserved"] * 5)
    for state in states:
        job = a_job() if state == "useful" else None
        condition = "active" if job else state
        a_run(
            a_gpu(last_ms=now_ms), job=job, condition=condition, state_ms={state: HOUR_MS}, **span
        )

    now = api.get("/api/v1/fleet/summary").json()["now"]
    described = api.get("/api/v1/openapi.json").json()["components"]["schemas"]["SpendingNow"][
        "properties"
    ]

    assert [now[name] for name in ("gpus", "judged_gpus", "unobserved_gpus", "allocated_gpus")] == [
        8,
        8,
        5,
        2,
    ]
    assert "neither allocated nor free" in described["unobserved_gpus"]["description"]


def test_waste_by_team_is_sorted_by_dollars_and_sums_to_its_total(api):
    a_small_fleet()

    answer = api.get("/api/v1/waste?group_by=team").json()

    assert [
        (row["key"], row["waste"]["wasted"]["usd"], row["cost_usd"]["total"])
        for row in answer["rows"]
    ] == [
        ("vision", 1.8, 1.8),
        ("nlp", 1.2, 3.0),
        ("", 0, 6.0),
    ]
    assert answer["totals"]["cost_usd"]["total"] == 10.8
    assert answer["totals"]["coverage"] == pytest.approx(6_600_000 / 7_200_000)
    assert answer["next_cursor"] is None


def test_rows_sum_to_the_total_to_the_micro_dollar(api):
    gpu = a_gpu()
    a_rate("1.000001", gpu=gpu)
    for _ in range(7):
        an_entry(gpu, "idle", 333_333, job=a_job(), tier="certain")

    answer = api.get("/api/v1/waste?group_by=job").json()

    # 7 x 333333 ms x 1.000001 / 3600000 = 0.64814814..; a row alone is 0.0925926.., which rounds to
    # 0.092593, and 7 of those to 0.648151
    assert answer["totals"]["cost_usd"]["total"] == 0.648148
    for money in (lambda row: row["cost_usd"]["total"], lambda row: row["waste"]["certain"]["usd"]):
        assert round(sum(money(row) for row in answer["rows"]) * 1e6) == round(
            money(answer["totals"]) * 1e6
        )
    for row in answer["rows"]:
        assert round(sum(row["cost_usd"]["states"].values()) * 1e6) == round(
            row["cost_usd"]["total"] * 1e6
        )


@pytest.mark.parametrize("path", ["waste?group_by=job&", "jobs?"])
@pytest.mark.parametrize("limit", [1, 3, 4, 7])
def test_the_rows_of_all_pages_sum_to_the_total_to_the_micro_dollar(api, path, limit):
    gpu = a_gpu()
    a_rate("1.000001", gpu=gpu)
    for number in range(7):
        an_entry(gpu, "idle", 333_333 + number, job=a_job(), tier="certain")

    rows, cursor = [], ""
    while cursor is not None:
        answer = api.get(f"/api/v1/{path}limit={limit}&cursor={cursor}").json()
        rows += answer["rows"]
        cursor = answer["next_cursor"]

    for money in (lambda row: row["cost_usd"]["total"], lambda row: row["waste"]["certain"]["usd"]):
        assert round(sum(money(row) for row in rows) * 1e6) == round(money(answer["totals"]) * 1e6)
    assert {row["cost_usd"]["total"] for row in rows} <= {0.092592, 0.092593, 0.092594, 0.092595}


@pytest.mark.parametrize(
    ("group_by", "keys"),
    [
        ("team", {"nlp", "vision", ""}),
        ("user", {"ann", "bob", ""}),
        ("job", {"slurm/della/1", "slurm/della/2", ""}),
        ("node", {"gpu-01", "gpu-02"}),
        ("gpu_model", {"H100 SXM", "L4"}),
        ("cause", {"undetermined"}),
    ],
)
def test_waste_is_grouped_as_asked(api, group_by, keys):
    a_small_fleet()

    answer = api.get(f"/api/v1/waste?group_by={group_by}").json()

    assert {row["key"] for row in answer["rows"]} == keys
    assert sum(row["capacity_ms"] for row in answer["rows"]) == answer["totals"]["capacity_ms"]


def test_causes_explain_idle_stalled_and_underused_time_and_nothing_else(api):
    a_small_fleet()

    [row] = api.get("/api/v1/waste?group_by=cause").json()["rows"]

    assert row["capacity_ms"] == 1_200_000 + 900_000
    assert row["cost_usd"]["total"] == 3.0
    assert row["waste"]["potential"]["usd"] == 0


def test_waste_can_be_narrowed(api):
    a_small_fleet()

    rows = api.get("/api/v1/waste?group_by=job&team=nlp").json()["rows"]

    assert [row["key"] for row in rows] == ["slurm/della/1"]


def test_waste_and_jobs_are_narrowed_to_time_in_states(api):
    a_small_fleet()
    whole = api.get("/api/v1/waste").json()["totals"]["states"]
    idle, stalled = whole["idle"], whole["stalled"]

    for path in ("waste?group_by=team", "waste?group_by=job", "jobs?"):
        for states, ms in (("idle", idle), ("idle,stalled", idle + stalled)):
            answer = api.get(f"/api/v1/{path}&state={states}").json()
            assert answer["totals"]["capacity_ms"] == ms > 0
            assert sum(row["capacity_ms"] for row in answer["rows"]) == ms
    # a cause is of several states
    for query in ("waste?group_by=cause&state=idle", "waste?state=lazy", "jobs?state=idle,"):
        answer = api.get(f"/api/v1/{query}")
        assert (answer.status_code, answer.json()["field"]) == (422, "state")


def test_jobs_are_narrowed_by_kind_and_cluster_and_gpus_by_model(api):
    big, small = a_gpu(model="H100", uuid="GPU-A"), a_gpu(model="L4", uuid="GPU-B")
    an_entry(big, job=a_job(key="slurm/della/1", kind="batch", cluster="della"))
    an_entry(small, job=a_job(key="k8s/erie/2", kind="service", cluster="erie"))

    for query, keys in (
        ("kind=service", ["k8s/erie/2"]),
        ("cluster=della", ["slurm/della/1"]),
        ("cluster=della&kind=service", []),
    ):
        answer = api.get(f"/api/v1/jobs?{query}").json()
        assert [row["key"] for row in answer["rows"]] == keys, query
        assert answer["totals"]["capacity_ms"] == 3_600_000 * len(keys), query
    for model, uuids in (("L4", ["GPU-B"]), ("T4", [])):
        answer = api.get(f"/api/v1/gpus?gpu_model={model}").json()
        assert [row["uuid"] for row in answer["rows"]] == uuids
        assert answer["totals"]["capacity_ms"] == 3_600_000 * len(uuids)
    assert api.get("/api/v1/jobs?kind=nap").status_code == 422


def test_pages_follow_each_other_without_gap_or_repeat_and_keep_their_period(api):
    gpu = a_gpu()
    for number in range(5):
        an_entry(gpu, "idle", 1000 * (number + 1), job=a_job(key=f"k{number}"), tier="certain")

    seen, cursor = [], ""
    while cursor is not None:
        answer = api.get(
            f"/api/v1/waste?group_by=job&limit=2&from=now-7d&to=now&cursor={cursor}"
        ).json()
        seen.append([row["key"] for row in answer["rows"]])
        cursor = answer["next_cursor"]

    assert seen == [["k4", "k3"], ["k2", "k1"], ["k0"]]
    assert (answer["from"], answer["to"]) == ("2026-10-27T00:00:00Z", "2026-11-03T00:00:00Z")
