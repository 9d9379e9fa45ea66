import math
from datetime import timedelta

import numpy as np
import pytest
from django.db import transaction

from fleetwatch.inventory.models import GPU, GPUModel
from fleetwatch.lib.intervals import HOUR_MS, Interval
from fleetwatch.lib.rows import fetched
from fleetwatch.telemetry import matrices, seal
from fleetwatch.telemetry.locks import SEALING, try_node_locks
from fleetwatch.telemetry.models import DayMatrix
from tests.telemetry.factories import HOUR, HOUR_START_MS, make_node, store
from tests.telemetry.threads import in_another_connection

pytestmark = pytest.mark.django_db

HOUR_INTERVAL = Interval(HOUR, HOUR + timedelta(hours=1))


def hour_cells(metric="util", interval=HOUR_INTERVAL, count=12):
    """GPU id -> its cells, None for a gap."""
    gpus = list(GPU.objects.order_by("index"))
    found = matrices.cells(metric, [gpu.pk for gpu in gpus], interval, count).tolist()
    return {
        gpu.pk: [None if math.isnan(value) else value for value in row]
        for gpu, row in zip(gpus, found, strict=True)
    }


def test_sealing_writes_the_days_cells():
    node = make_node()
    first, second = node.gpus.order_by("index").values_list("pk", flat=True)
    columns = {
        "util_mean": [0.5, 1.0],
        "power_w": [350.0, None],
        "memory_used_bytes": [8_000_000_000, 80_000_000_000],
    }
    store(node, starts=[HOUR_START_MS, HOUR_START_MS + 300_000], positions=[0, 1], columns=columns)

    seal.seal_closed_hours(HOUR + timedelta(hours=2), limit=10)

    assert hour_cells("util") == {first: [0.5] + [None] * 11, second: [None, 1.0] + [None] * 10}
    assert hour_cells("memory")[first][0] == pytest.approx(0.1)
    # 350 W is 43.75 steps of 8 W: 352 W of 700 W
    assert hour_cells("power")[first][0] == pytest.approx(352 / 700)
    assert DayMatrix.objects.filter(metric="util").get().day.isoformat() == "2026-11-20"


def test_people_ask_for_cells_in_sql():
    node = make_node("gpu-07")
    columns = {"util_mean": [0.5, 1.0], "power_w": [350.0, None]}
    store(node, starts=[HOUR_START_MS, HOUR_START_MS + 300_000], positions=[0, 1], columns=columns)

    seal.seal_closed_hours(HOUR + timedelta(hours=2), limit=10)

    later = HOUR + timedelta(minutes=5)
    assert fetched(
        "SELECT start, node, gpu, metric, value::float8 FROM gpu_five_minutes ORDER BY metric, start",
        [],
    ) == [
        (HOUR, "gpu-07", "GPU-gpu-07-0", "power", 352.0),
        (HOUR, "gpu-07", "GPU-gpu-07-0", "util", 0.5),
        (later, "gpu-07", "GPU-gpu-07-1", "util", 1.0),
    ]


def test_late_data_of_another_hour_leaves_the_first_hours_cells():
    node = make_node(gpus=1)
    store(node, starts=[HOUR_START_MS])
    seal.seal_closed_hours(HOUR + timedelta(hours=2), limit=10)
    store(node, sequence=2, starts=[HOUR_START_MS - HOUR_MS], columns={"util_mean": [1.0]})
    seal.seal_closed_hours(HOUR + timedelta(hours=2), limit=10)

    [row] = hour_cells(
        interval=Interval(HOUR - timedelta(hours=1), HOUR + timedelta(hours=1)), count=24
    ).values()

    assert row == [1.0] + [None] * 11 + [0.5] + [None] * 11
    assert DayMatrix.objects.filter(metric="util").count() == 1


def test_the_newest_cells_are_drawn_before_their_hour_is_sealed():
    node = make_node(gpus=1)
    store(
        node,
        starts=[HOUR_START_MS + 60_000, HOUR_START_MS + 610_000],
        columns={"util_mean": [0.1, 0.9]},
    )

    did = matrices.refresh_recent(HOUR + timedelta(minutes=12))

    [row] = hour_cells().values()
    assert did == {"nodes": 1}
    assert row[:3] == pytest.approx([0.1, None, 0.9])


def test_the_newest_cells_are_drawn_on_both_sides_of_midnight():
    node = make_node(gpus=1)
    midnight = HOUR + timedelta(hours=14)
    midnight_ms = HOUR_START_MS + 14 * HOUR_MS
    store(node, starts=[midnight_ms - 10_000, midnight_ms], columns={"util_mean": [0.2, 0.4]})

    matrices.refresh_recent(midnight + timedelta(minutes=4))

    around = Interval(midnight - timedelta(minutes=10), midnight + timedelta(minutes=10))
    [row] = hour_cells(interval=around, count=4).values()
    assert row == pytest.approx([None, 0.2, 0.4, None])


@pytest.mark.django_db(transaction=True)
def test_newest_cells_of_a_node_that_another_worker_has_are_left_to_it():
    nodes = [make_node(name, gpus=1) for name in "ab"]
    for node in nodes:
        store(node, starts=[HOUR_START_MS + 60_000])
    now = HOUR + timedelta(minutes=12)
    with transaction.atomic():
        assert try_node_locks(SEALING, [nodes[0].pk])
        busy = in_another_connection(lambda: matrices.refresh_recent(now)).result(timeout=20)

    assert (busy, matrices.refresh_recent(now)) == ({"nodes": 1}, {"nodes": 2})


def test_drawing_the_newest_cells_never_blanks_sealed_ones():
    node = make_node(gpus=1)
    store(node, starts=[HOUR_START_MS + HOUR_MS - 10_000, HOUR_START_MS + HOUR_MS])
    now = HOUR + timedelta(hours=1, minutes=10)
    seal.seal_closed_hours(now, limit=10)

    matrices.refresh_recent(now)

    [row] = hour_cells(interval=Interval(HOUR, HOUR + timedelta(hours=2)), count=24).values()
    assert row[11:13] == [0.5, 0.5]


def test_cells_reach_over_midnight():
    node = make_node(gpus=1)
    midnight = HOUR_START_MS + 14 * HOUR_MS
    store(node, starts=[midnight - 10_000, midnight], columns={"util_mean": [0.2, 0.4]})
    seal.seal_closed_hours(HOUR + timedelta(days=1), limit=10)

    [row] = hour_cells(
        interval=Interval(HOUR + timedelta(hours=13), HOUR + timedelta(hours=15)), count=2
    ).values()

    assert row == pytest.approx([0.2, 0.4])
    assert DayMatrix.objects.filter(metric="util").count() == 2


def test_power_without_a_known_limit_is_not_shown_as_a_ratio():
    node = make_node(gpus=2)
    model = GPUModel.objects.create(name="H100 SXM", limit_w=800.0)
    node.gpus.update(power_limit_w=None)
    node.gpus.filter(index=1).update(model=model)
    store(node, starts=[HOUR_START_MS] * 2, positions=[0, 1], columns={"power_w": [400.0, 400.0]})
    seal.seal_closed_hours(HOUR + timedelta(hours=2), limit=10)

    rows = list(hour_cells("power").values())

    assert [row[0] for row in rows] == [None, 0.5]


def test_a_gpu_without_data_has_empty_cells():
    make_node(gpus=1)

    assert list(hour_cells().values()) == [[None] * 12]


def test_of_a_gpu_under_two_nodes_each_has_its_part_of_the_day():
    node = make_node("gpu-07")
    other = make_node("gpu-08")
    gpu = node.gpus.order_by("index")[0]
    for each, first, share in ((node, 0, 100), (other, 6, 200)):
        cells = np.full(288, 255, dtype=np.uint8)
        cells[HOUR.hour * 12 + first : HOUR.hour * 12 + first + 6] = share
        DayMatrix.objects.create(
            node_id=each.pk, day=HOUR.date(), metric="util", gpu_ids=[gpu.pk], cells=cells.tobytes()
        )

    found = matrices.cells("util", [gpu.pk], HOUR_INTERVAL, 12)[0]

    assert found[0] == found[5] == 100 * matrices.STEPS["util"]
    assert found[6] == found[11] == 200 * matrices.STEPS["util"]
    assert matrices.shades("util", [gpu.pk], HOUR_INTERVAL, 12)[0].tolist() == [100] * 6 + [200] * 6
    assert matrices.shades("util", [gpu.pk], HOUR_INTERVAL, 2)[0].tolist() == [100, 200]


def test_shades_are_what_is_stored_in_the_order_that_is_asked_for():
    node = make_node(gpus=2)
    first, second = node.gpus.order_by("index").values_list("pk", flat=True)
    cells = np.repeat(np.array([[10], [20]], dtype=np.uint8), 288, axis=1)
    cells[:, HOUR.hour * 12] = 255
    DayMatrix.objects.create(
        node_id=node.pk, day=HOUR.date(), metric="util", gpu_ids=[first, second], cells=bytes(cells)
    )

    shades = matrices.shades("util", [second, 0, first], HOUR_INTERVAL, 4)

    assert shades.tolist() == [[20] * 4, [255] * 4, [10] * 4]


def test_shades_of_power_are_by_the_limit_and_of_steps_within_cells_what_cells_say():
    node = make_node(gpus=1)
    node.gpus.update(power_limit_w=800.0)
    store(node, starts=[HOUR_START_MS], columns={"util_mean": [0.5], "power_w": [400.0]})
    seal.seal_closed_hours(HOUR + timedelta(hours=2), limit=10)
    gpu_ids = list(node.gpus.values_list("pk", flat=True))

    assert matrices.shades("power", gpu_ids, HOUR_INTERVAL, 12)[0, 0] == 125
    assert matrices.shades("util", gpu_ids, HOUR_INTERVAL, 60)[0, :6].tolist() == [125] * 5 + [255]
