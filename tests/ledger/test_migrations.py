"""What migrations of the ledger do with rows that stand."""

import importlib
import json
from datetime import timedelta

import numpy as np
import pytest
import zstandard
from django.apps import apps
from django.db import connection

from fleetwatch.inventory.models import GPU, GPUModel, Node
from fleetwatch.ledger import hour_cells, state_days
from fleetwatch.ledger.cell_states import KEYS, NAMES
from fleetwatch.ledger.models import HourCells, Run, StateDay
from fleetwatch.lib.intervals import HOUR_MS, from_ms
from fleetwatch.telemetry import codec
from fleetwatch.telemetry.models import TouchedHour
from tests.ledger.fleet import BUSY, MINUTE, START, T0, Sender, post

one_column = importlib.import_module("fleetwatch.ledger.migrations.0011_cells_are_one_column")
typed_arrays = importlib.import_module("fleetwatch.ledger.migrations.0012_runs_in_typed_arrays")
one_frame = importlib.import_module("fleetwatch.ledger.migrations.0013_cells_are_one_frame")
days_as_shown = importlib.import_module("fleetwatch.ledger.migrations.0018_states_of_days_as_shown")
made_anew = importlib.import_module("fleetwatch.ledger.migrations.0016_verdicts_are_made_anew")
HOUR = 494_444 * HOUR_MS


@pytest.mark.django_db
def test_cells_written_column_by_column_are_read_after_the_migration_and_written_so_again_by_its_reverse():
    node = Node.objects.create(name="n1")
    # two cells of GPU 7 and job 9: five minutes of the first state, then of the second
    columns = {"gpu_id": [7, 7], "job_id": [9, 9], "start_ms": [HOUR, HOUR + 300_000]} | {
        name: [0, 0] for name in NAMES
    }
    columns[NAMES[0]], columns[NAMES[1]] = [300_000, 0], [0, 300_000]
    old = codec.pack({name: np.array(values, dtype=np.int64) for name, values in columns.items()})
    HourCells.objects.create(node=node, hour=from_ms(HOUR), payload=old)

    one_column.join(apps, None)
    one_frame.to_frames(apps, None)
    read = hour_cells.read([node.pk], HOUR, HOUR + HOUR_MS)[node.pk]
    one_frame.to_sealed(apps, None)
    one_column.split(apps, None)
    back = codec.unpack(bytes(HourCells.objects.get().payload))

    assert {name: read[name].tolist() for name in (*KEYS, *NAMES)} == columns
    assert {name: back[name].tolist() for name in (*KEYS, *NAMES)} == columns


@pytest.mark.django_db
def test_cells_that_are_one_column_already_stay_as_they_are():
    node = Node.objects.create(name="n1")
    hour_cells.write(node.pk, {}, [HOUR], start_ms=HOUR, end_ms=HOUR + HOUR_MS)
    one_frame.to_sealed(apps, None)
    before = bytes(HourCells.objects.get().payload)

    one_column.join(apps, None)

    assert bytes(HourCells.objects.get().payload) == before


@pytest.mark.django_db
def test_runs_keep_their_numbers_when_json_becomes_arrays_and_when_these_become_json_again():
    model = GPUModel.objects.create(name="H100")
    gpu = GPU.objects.create(node=Node.objects.create(name="n1"), uuid="GPU-1", model=model)
    spent, figures = (
        {"useful": 1_500, "unobserved": 500},
        {"power_w_ms": 1_500.0, "power_w_sum": 6.7e16, "memory_used_bytes_sum": 0.1},
    )
    Run.objects.create(
        node=gpu.node,
        gpu=gpu,
        condition="active",
        start_ms=HOUR,
        end_ms=HOUR + 2_000,
        state_ms=spent,
        figures=figures,
    )
    with connection.cursor() as cursor:
        cursor.execute(typed_arrays.TO_JSON)
        cursor.execute("SELECT state_ms::text, figures::text FROM ledger_run")
        told = cursor.fetchone()

        cursor.execute(typed_arrays.TO_ARRAYS)

    run = Run.objects.get()
    assert [json.loads(text) for text in told] == [spent, figures]
    assert (run.state_ms, run.figures) == (spent, figures)


@pytest.mark.django_db
def test_a_number_without_a_place_is_refused():
    gpu = GPU.objects.create(node=Node.objects.create(name="n1"), uuid="GPU-1")

    with pytest.raises(ValueError, match="state_ms has no place for busy"):
        Run.objects.create(
            node=gpu.node,
            gpu=gpu,
            condition="active",
            start_ms=HOUR,
            end_ms=HOUR + 1,
            state_ms={"busy": 1},
        )


@pytest.mark.django_db
def test_every_hour_of_which_windows_are_kept_is_judged_anew():
    post(Sender().batch(T0 + 30 * MINUTE, *[BUSY] * 60))
    TouchedHour.objects.all().delete()

    with connection.cursor() as cursor:
        cursor.execute(made_anew.JUDGE_AGAIN)

    hours = TouchedHour.objects.order_by("hour").values_list("node_id", "hour")
    assert list(hours) == [
        (Node.objects.get().pk, START),
        (Node.objects.get().pk, START + timedelta(hours=1)),
    ]


@pytest.mark.django_db
def test_days_of_nine_states_are_forgotten_and_made_again_of_the_same_entries():
    post(Sender().batch(T0, *[BUSY] * 60))
    day_over = START + timedelta(hours=19)
    state_days.refresh(day_over, 100)
    nine_states = zstandard.ZstdCompressor().compress(bytes(8 + 24 * 9 * 4))
    StateDay.objects.update(spent=nine_states)

    with connection.cursor() as cursor:
        cursor.execute(days_as_shown.FORGET)

    assert not StateDay.objects.exists()
    assert state_days.refresh(day_over, 100) == {"state_days": 1}
