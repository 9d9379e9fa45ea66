from datetime import timedelta
from decimal import Decimal

import pytest

from fleetwatch.inventory import selectors
from fleetwatch.inventory.models import GPU, GPUModel, Node
from fleetwatch.inventory.services import node_by_name, register_batch, retire, retire_silent
from fleetwatch.inventory.silence import RETIRED_AFTER_MS
from fleetwatch.lib.intervals import from_ms
from tests.ingest.factories import NOW, NOW_MS, T0, batch, gpu

pytestmark = pytest.mark.django_db
DAY = 86_400_000


def register(*, node="n1", **keys):
    return register_batch(
        node_by_name(node), batch(node=node, **keys), offset_ms=0, received_at=NOW
    )


def test_gpus_are_found_by_their_position():
    gpus = register(gpus=[gpu("GPU-1"), gpu("GPU-2")]).gpus

    assert {position: row.uuid for position, row in gpus.items()} == {0: "GPU-1", 1: "GPU-2"}


def test_a_product_is_made_on_sight():
    register(gpus=[gpu(model="NVIDIA H100 80GB HBM3"), gpu("GPU-2", model="NVIDIA Imaginary 1")])

    assert list(GPUModel.objects.order_by("name").values_list("name", "idle_w", "limit_w")) == [
        ("H100 SXM", 70.0, 700.0),
        ("Imaginary 1", None, None),
    ]


def test_a_virtual_gpus_board_is_a_product_too_and_made_once():
    parts = [
        gpu("GPU-1", model="GRID A100-10C"),
        gpu("GPU-2", model="H100XM-80C"),
        gpu("GPU-3", model="GRID A100-0C"),
    ]
    for sequence in (1, 2):
        register(sequence=sequence, gpus=parts)
    register(node="n2", gpus=[gpu("GPU-4", model="GRID A100-20C")])

    assert list(
        GPUModel.objects.order_by("name").values_list("name", "board__name", "board_share")
    ) == [
        ("A100-PCIE-40GB", None, None),
        ("GRID A100-0C", None, None),
        ("GRID A100-10C", "A100-PCIE-40GB", Decimal("0.25")),
        ("GRID A100-20C", "A100-PCIE-40GB", Decimal("0.5")),
        ("H100 SXM", None, None),
        ("H100XM-80C", "H100 SXM", 1),
    ]


def test_what_was_not_read_erases_nothing():
    register(sequence=1)

    register(sequence=2, gpus=[{"uuid": "GPU-1"}])

    row = GPU.objects.get()
    assert (row.model_name, row.power_limit_w, row.index) == ("NVIDIA H100 80GB HBM3", 700.0, 0)


def test_an_older_batch_changes_no_fact_but_fills_what_is_unknown():
    register(sequence=2, gpus=[{"uuid": "GPU-1", "power_limit_w": 500.0}])

    register(sequence=1)

    row = GPU.objects.get()
    assert (row.power_limit_w, row.sm_count, row.memory_total_bytes) == (500.0, None, 85520809984)


def test_a_gpu_that_cannot_be_read_is_registered_without_windows():
    register(windows={"gpu": [], "start_ms": [], "observed_ms": []})

    row = GPU.objects.get()
    assert (row.first_ms, row.last_ms) == (None, None)


def test_the_parent_of_an_instance_is_made_and_lives_with_it():
    register(gpus=[gpu("MIG-1", parent_uuid="GPU-1", mig_profile="1g.10gb")])

    parent, instance = GPU.objects.get(uuid="GPU-1"), GPU.objects.get(uuid="MIG-1")
    assert instance.parent == parent
    assert (parent.first_ms, parent.last_ms) == (T0, T0 + 30_000)
    assert parent.parent is None


def test_a_gpu_that_names_itself_as_its_parent_has_none():
    register(gpus=[gpu("GPU-1", parent_uuid="GPU-1")])

    assert GPU.objects.get().parent is None


@pytest.mark.parametrize(
    ("silent_ms", "retired"), [(RETIRED_AFTER_MS - 1, 0), (RETIRED_AFTER_MS, 1)]
)
def test_a_gpu_is_retired_after_seven_silent_days_of_its_node(silent_ms, retired):
    last_ms = T0 + 30_000
    register(gpus=[gpu("GPU-1"), gpu("GPU-2")])
    Node.objects.update(last_ms=last_ms + silent_ms)
    GPU.objects.filter(uuid="GPU-1").update(last_ms=last_ms + silent_ms)

    assert len(retire_silent(NOW + timedelta(days=30))) == retired
    assert GPU.objects.get(uuid="GPU-2").retired_ms == (last_ms if retired else None)
    assert GPU.objects.get(uuid="GPU-1").retired_ms is None


def test_a_node_that_is_off_retires_nothing():
    register()

    assert retire_silent(NOW + timedelta(days=30)) == []


def test_retiring_twice_changes_nothing():
    register(gpus=[gpu("GPU-1"), gpu("GPU-2")])
    register(sequence=2, start_ms=T0 + 8 * DAY)

    first, second = retire_silent(NOW + timedelta(days=9)), retire_silent(NOW + timedelta(days=9))

    node_id = Node.objects.get().pk
    assert first == [(node_id, (T0 + 30_000, T0 + 8 * DAY + 30_000))]
    assert second == []


def test_a_gpu_that_comes_back_is_capacity_again():
    register(gpus=[gpu("GPU-1"), gpu("GPU-2")])
    register(sequence=2, start_ms=T0 + 8 * DAY)
    retire_silent(NOW + timedelta(days=9))

    changed = register(sequence=3, start_ms=T0 + 9 * DAY, gpus=[gpu("GPU-2")]).changed

    assert GPU.objects.get(uuid="GPU-2").retired_ms is None
    assert changed == {Node.objects.get().pk: [(T0 + 30_000, T0 + 9 * DAY + 30_000)]}


def test_late_windows_from_before_the_retirement_do_not_end_it():
    register(gpus=[gpu("GPU-1"), gpu("GPU-2")], start_ms=T0)
    register(sequence=3, start_ms=T0 + 8 * DAY)
    retire_silent(NOW + timedelta(days=9))

    register(sequence=2, start_ms=T0 - 60_000, gpus=[gpu("GPU-2")])

    assert GPU.objects.get(uuid="GPU-2").retired_ms == T0 + 30_000


def test_a_gpu_is_retired_by_hand():
    register()
    row = GPU.objects.select_related("node").get()

    changed = retire(row, from_ms(T0 + 10_000))

    assert changed == (row.node_id, (T0 + 10_000, T0 + 30_000))
    assert GPU.objects.get().retired_ms == T0 + 10_000


def test_the_newest_sign_of_life_may_be_an_event_or_a_host_sample():
    register(
        host={"start_ms": [T0 + 60_000]},
        events=[{"gpu": None, "at_ms": T0 + 65_000, "kind": "driver_missing"}],
    )

    assert Node.objects.get().last_ms == T0 + 70_000


def test_lists_for_pages():
    register(node="b", gpus=[gpu("GPU-2", index=1), gpu("GPU-1", index=0)])
    register(node="a", gpus=[gpu("GPU-3")])
    GPU.objects.filter(uuid="GPU-3").update(retired_ms=NOW_MS)

    assert [row.uuid for row in selectors.gpus()] == ["GPU-1", "GPU-2"]
    assert [row.uuid for row in selectors.gpus(with_retired=True)] == ["GPU-3", "GPU-1", "GPU-2"]
    assert [row.uuid for row in selectors.gpus(node_name="a", with_retired=True)] == ["GPU-3"]
    assert selectors.node("c") is None
    assert selectors.gpu("GPU-1").node.name == "b"


def test_a_product_is_named_by_its_driver_once():
    register(gpus=[gpu("GPU-1", model="NVIDIA Card MIG 1g.5gb MIG 2")])

    assert GPU.objects.get().model.name == "Card MIG 1g.5gb"
