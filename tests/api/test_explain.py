"""Dollars, entries, windows, rule: the API's explain."""

import pytest
import time_machine
from django.test import Client

from tests.costs.factories import a_rate
from tests.ledger.fleet import BUSY, MINUTE, NOW, QUIET, T0, Sender, a_job, held, post

pytestmark = pytest.mark.django_db

PERIOD = "from=2026-11-20T06:00Z&to=2026-11-20T07:00Z"


@pytest.fixture(autouse=True)
def at_midnight():
    with time_machine.travel(NOW, tick=False):
        yield


@pytest.fixture
def gpu(db):
    from fleetwatch.inventory.models import GPU

    post(Sender().batch(T0, *[BUSY] * 30, *[QUIET] * 30, jobs=[a_job()], allocations=[held()]))
    found = GPU.objects.get()
    a_rate("3.60", gpu=found, source="contract 7")
    return found


def test_dollars_come_with_entries_windows_and_the_rule(api, gpu):
    answer = api.get(f"/api/v1/explain?gpu={gpu.uuid}&{PERIOD}").json()

    assert (answer["usd"], answer["is_final"], answer["gpu"]) == (3.6, False, gpu.uuid)
    entry = answer["entries"][0]
    assert (entry["state"], entry["gpu_ms"], entry["usd"], entry["usd_per_gpu_hour"]) == (
        "idle",
        30 * MINUTE,
        1.8,
        3.6,
    )
    assert (
        entry["job"],
        entry["rate_source"],
        entry["is_adjustment"],
        entry["policy_version"],
    ) == (
        "slurm/della/7",
        "contract 7",
        False,
        1,
    )
    assert sum(one["usd"] for one in answer["entries"]) == answer["usd"]
    assert len(answer["windows"]) == 60
    first = answer["windows"][0]
    assert first["values"]["util_mean"] == 1.0
    assert first["parts"] == [
        {
            "state": "useful",
            "kind": "",
            "reason": "",
            "tier": "",
            "signal": "utilization",
            "efficiency_source": "none",
            "gpu_ms": MINUTE,
        }
    ]
    assert (
        "at least the 15 min after which a batch job is idle" in answer["windows"][-1]["rule"][-1]
    )
    assert answer["policies"]["1"]["idle_batch_s"] == 900


def test_a_job_and_a_state_narrow_it(api, gpu):
    only = api.get(f"/api/v1/explain?gpu={gpu.uuid}&{PERIOD}&state=idle&job=slurm/della/7").json()

    assert [entry["state"] for entry in only["entries"]] == ["idle"]
    assert len(only["windows"]) == 30


@pytest.mark.parametrize(
    ("query", "status", "field"),
    [
        (PERIOD, 422, "gpu"),
        (f"gpu=GPU-nowhere&{PERIOD}", 404, "gpu"),
        ("gpu=GPU-n1-0&from=2026-11-20T00:00Z&to=2026-11-20T06:01Z", 422, "from"),
        (f"gpu=GPU-n1-0&{PERIOD}&state=lazy", 422, "state"),
        (f"gpu=GPU-n1-0&{PERIOD}&job=slurm/della/404", 404, "job"),
        (f"gpu=%00&{PERIOD}", 422, "gpu"),
        (f"gpu={'x' * 401}&{PERIOD}", 422, "gpu"),
    ],
)
def test_what_cannot_be_explained_says_why(api, gpu, query, status, field):
    answer = api.get(f"/api/v1/explain?{query}")

    assert (answer.status_code, answer.json()["field"]) == (status, field)


def test_a_stranger_gets_401(gpu):
    assert Client().get(f"/api/v1/explain?gpu={gpu.uuid}&{PERIOD}").status_code == 401


def test_a_long_period_is_explained_by_its_newest_hours_where_that_is_asked(api, gpu):
    answer = api.get(
        f"/api/v1/explain?gpu={gpu.uuid}&from=2026-11-19T00:00Z&to=2026-11-20T12:00Z&newest=true"
    ).json()

    assert (answer["usd"], answer["to"]) == (3.6, "2026-11-20T07:00:00Z")


def test_of_what_no_job_held_there_is_nothing_here(api, gpu):
    assert api.get(f"/api/v1/explain?gpu={gpu.uuid}&job=&{PERIOD}").json()["entries"] == []
