"""Hours' cells lose the header of sealed columns: one zstd frame, in an eighth of the time to pack; and back."""

from collections.abc import Callable

import numpy as np
from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from fleetwatch.telemetry import codec
from fleetwatch.telemetry.directory import compress, decompress

IDS, COLUMNS = 2, 12
ROW_BYTES = 8 * IDS + 4 * (COLUMNS - IDS)
ROWS_AT_ONCE = 500


def _rewrite(apps: Apps, turned: Callable[[bytes], bytes]) -> None:
    cells = apps.get_model("ledger", "HourCells")
    last = 0
    while rows := list(cells.objects.filter(pk__gt=last).order_by("pk")[:ROWS_AT_ONCE]):
        for row in rows:
            row.payload = turned(bytes(row.payload))
        cells.objects.bulk_update(rows, ["payload"])
        last = rows[-1].pk


def to_frames(apps: Apps, _: BaseDatabaseSchemaEditor | None) -> None:
    def framed(payload: bytes) -> bytes:
        columns = codec.unpack(payload)["cells"].reshape(COLUMNS, -1)
        return compress(columns[:IDS].astype("<i8").tobytes() + columns[IDS:].astype("<i4").tobytes())

    _rewrite(apps, framed)


def to_sealed(apps: Apps, _: BaseDatabaseSchemaEditor | None) -> None:
    def sealed(payload: bytes) -> bytes:
        data = decompress(payload)
        rows = len(data) // ROW_BYTES
        ids = np.frombuffer(data, dtype="<i8", count=IDS * rows)
        rest = np.frombuffer(data, dtype="<i4", offset=ids.nbytes)
        return codec.pack({"cells": np.concatenate([ids, rest]).astype(np.int64)})

    _rewrite(apps, sealed)


class Migration(migrations.Migration):
    dependencies = [("ledger", "0012_runs_in_typed_arrays")]

    operations = [
        migrations.RunPython(to_frames, to_sealed),
        migrations.AlterField(
            model_name="hourcells",
            name="payload",
            field=models.BinaryField(
                help_text="zstd of columns (hour_cells.py): GPU and job ids (int64), then from when on and milliseconds (int32)"
            ),
        ),
    ]
