"""A GPU that moved is one to whoever asks for it: its whole life, its figures on both nodes, a rate
of its own.
"""

import pytest

from fleetwatch.costs.rates.subjects import find
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.totals import Scope
from fleetwatch.inventory.models import GPU, Stay
from fleetwatch.lib.intervals import Interval, from_ms, to_ms
from tests.costs.factories import HOUR, HOUR_MS, a_gpu, a_rate, an_entry

pytestmark = pytest.mark.django_db
T0 = to_ms(HOUR)


@pytest.fixture
def moved():
    """GPU-1: an hour idle with gpu-01, then an hour useful with gpu-02."""
    former = a_gpu(
        uuid="GPU-1", node="gpu-01", first_ms=T0, last_ms=T0 + HOUR_MS, retired_ms=T0 + HOUR_MS
    )
    now = a_gpu(uuid="GPU-1", node="gpu-02", first_ms=T0 + HOUR_MS, last_ms=T0 + 2 * HOUR_MS)
    for gpu in (former, now):
        Stay.objects.create(
            gpu=gpu, uuid="GPU-1", first_ms=gpu.first_ms, last_ms=gpu.last_ms, is_believed=True
        )
    an_entry(former, "idle", HOUR_MS, start=HOUR, tier="certain")
    an_entry(now, "useful", HOUR_MS, start=from_ms(T0 + HOUR_MS))
    return former, now


def period():
    return Interval(HOUR, from_ms(T0 + 2 * HOUR_MS))


def asked(api, path):
    return api.get(
        f"/api/v1/{path}{'&' if '?' in path else '?'}from={HOUR:%Y-%m-%dT%H:%M}&to={period().end:%Y-%m-%dT%H:%M}"
    ).json()


def test_its_row_says_where_it_was_and_sums_both_nodes(api, moved):
    row = asked(api, "gpus/GPU-1")

    assert [(stay["node"], stay["is_believed"]) for stay in row["stays"]] == [
        ("gpu-01", True),
        ("gpu-02", True),
    ]
    assert row["node"] == "gpu-02"
    assert (row["states"]["idle"], row["states"]["useful"]) == (HOUR_MS, HOUR_MS)


def test_it_is_listed_once_and_with_a_former_node_by_what_it_was_there(api, moved):
    everywhere, former = asked(api, "gpus"), asked(api, "gpus?node=gpu-01")

    assert [(row["uuid"], row["node"], row["capacity_ms"]) for row in everywhere["rows"]] == [
        ("GPU-1", "gpu-02", 2 * HOUR_MS)
    ]
    assert [(row["node"], row["capacity_ms"]) for row in former["rows"]] == [("gpu-01", HOUR_MS)]


def test_a_rate_of_its_own_goes_with_it(moved):
    a_rate("1.00", gpu=moved[0])
    a_rate("3.00", only=find("gpu", "GPU-1")["gpu"])

    assert costs.totals(period(), scope=Scope(gpu="GPU-1")).cost_usd == 6


def test_a_gpu_that_a_node_only_claims_is_not_that_nodes(api, moved):
    thief = a_gpu(uuid="GPU-1", node="thief", first_ms=None, last_ms=None)
    Stay.objects.create(
        gpu=thief, uuid="GPU-1", first_ms=T0, last_ms=T0 + HOUR_MS, is_believed=False
    )

    assert [row["node"] for row in asked(api, "gpus")["rows"]] == ["gpu-02"]
    assert asked(api, "gpus?node=thief")["rows"] == []
    assert GPU.objects.filter(node__name="thief").exists()
