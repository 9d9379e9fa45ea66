"""What migrations of the ledger do with rows that stand."""

import importlib

import numpy as np
import pytest
from django.apps import apps

from fleetwatch.inventory.models import Node
from fleetwatch.ledger import hour_cells
from fleetwatch.ledger.cell_states import KEYS, NAMES
from fleetwatch.ledger.models import HourCells
from fleetwatch.lib.intervals import HOUR_MS, from_ms
from fleetwatch.telemetry import codec

one_column = importlib.import_module("fleetwatch.ledger.migrations.0011_cells_are_one_column")
HOUR = 494_444 * HOUR_MS


@pytest.mark.django_db
def test_cells_written_column_by_column_are_read_after_the_migration_and_written_so_again_by_its_reverse():
    node = Node.objects.create(name="n1")
    # two cells of GPU 7 and job 9: five minutes of the first state, then of the second
    columns = {"gpu_id": [7, 7], "job_id": [9, 9], "start_ms": [HOUR, HOUR + 300_000]} | {name: [0, 0] for name in NAMES}
    columns[NAMES[0]], columns[NAMES[1]] = [300_000, 0], [0, 300_000]
    old = codec.pack({name: np.array(values, dtype=np.int64) for name, values in columns.items()})
    HourCells.objects.create(node=node, hour=from_ms(HOUR), payload=old)

    one_column.join(apps, None)
    read = hour_cells.read([node.pk], HOUR, HOUR + HOUR_MS)[node.pk]
    one_column.split(apps, None)
    back = codec.unpack(bytes(HourCells.objects.get().payload))

    assert {name: read[name].tolist() for name in (*KEYS, *NAMES)} == columns
    assert {name: back[name].tolist() for name in (*KEYS, *NAMES)} == columns


@pytest.mark.django_db
def test_cells_that_are_one_column_already_stay_as_they_are():
    node = Node.objects.create(name="n1")
    hour_cells.write(node.pk, {}, [HOUR], start_ms=HOUR, end_ms=HOUR + HOUR_MS)
    before = bytes(HourCells.objects.get().payload)

    one_column.join(apps, None)

    assert bytes(HourCells.objects.get().payload) == before
