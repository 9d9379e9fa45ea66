"""Hours' cells that were written column by column become one column, as posting writes them now; and back."""

from collections.abc import Callable

import numpy as np
from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from fleetwatch.ledger.cell_states import KEYS, NAMES, Table
from fleetwatch.lib.intervals import to_ms
from fleetwatch.telemetry import codec


def _rewrite(apps: Apps, turned: Callable[[Table, int], Table]) -> None:
    cells = apps.get_model("ledger", "HourCells")
    for row in cells.objects.iterator(500):
        row.payload = codec.pack(turned(codec.unpack(bytes(row.payload)), to_ms(row.hour)))
        row.save(update_fields=["payload"])


def join(apps: Apps, _: BaseDatabaseSchemaEditor | None) -> None:
    def joined(columns: Table, hour: int) -> Table:
        if "cells" in columns:
            return columns
        columns["start_ms"] = columns["start_ms"] - hour
        return {"cells": np.concatenate([columns[name] for name in (*KEYS, *NAMES)])}

    _rewrite(apps, joined)


def split(apps: Apps, _: BaseDatabaseSchemaEditor | None) -> None:
    def parted(columns: Table, hour: int) -> Table:
        rows = columns["cells"].reshape(len(KEYS) + len(NAMES), -1)
        found = dict(zip((*KEYS, *NAMES), rows, strict=True))
        return found | {"start_ms": found["start_ms"] + hour}

    _rewrite(apps, parted)


class Migration(migrations.Migration):
    dependencies = [("ledger", "0010_entries_check_their_job_alone")]

    operations = [migrations.RunPython(join, split)]
