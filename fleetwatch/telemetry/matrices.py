"""Day matrices: cells written into the rows that heat maps read."""

from datetime import datetime

import numpy as np
from django.db import transaction

from fleetwatch.inventory.models import GPU
from fleetwatch.lib.intervals import from_ms, to_ms
from fleetwatch.telemetry import hot
from fleetwatch.telemetry.cells import CELL_MS, CELLS_PER_DAY, COLUMNS, DAY_MS, METRICS, MISSING, Bytes, cells
from fleetwatch.telemetry.locks import SEALING, try_node_lock
from fleetwatch.telemetry.models import DayMatrix, SealMark
from fleetwatch.telemetry.tables import WINDOW_INTS, WINDOW_KEYS, Table, joined, started_in

# Open hours are drawn from the cells before now that can still change: this one and the two before it.
RECENT_CELLS = 3


def write(node_id: int, table: Table, *, start_ms: int, count: int) -> None:
    """Replaces `count` cells from `start_ms` on, within one UTC day, for the GPUs that have windows in the table.

    Call it in a transaction that holds the node's sealing lock.
    """
    gpu_ids, fresh = cells(table, start_ms=start_ms, count=count, memory_bytes=_memory_bytes(table))
    if not gpu_ids:
        return
    day_ms = start_ms // DAY_MS * DAY_MS
    first = (start_ms - day_ms) // CELL_MS
    day = from_ms(day_ms).date()
    stored = {row.metric: row for row in DayMatrix.objects.filter(node_id=node_id, day=day)}
    rows = [
        _spliced(
            stored.get(metric.name) or DayMatrix(node_id=node_id, day=day, metric=metric.name, gpu_ids=[], cells=b""),
            gpu_ids,
            first,
            fresh[metric.name],
        )
        for metric in METRICS
    ]
    DayMatrix.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["node_id", "day", "metric"], update_fields=["gpu_ids", "cells"]
    )


def refresh_recent(now: datetime) -> dict[str, int]:
    """How many nodes' newest cells were drawn again from batches that are not sealed yet.

    Heat maps reach up to now; sealing later writes the same cells from the whole hour.
    """
    end_ms = to_ms(now)
    start_ms = max((end_ms // CELL_MS - RECENT_CELLS + 1) * CELL_MS, end_ms // DAY_MS * DAY_MS)
    hours = {from_ms(moment // 3_600_000 * 3_600_000) for moment in (start_ms, end_ms)}
    nodes = list(SealMark.objects.filter(hour__in=hours).values_list("node_id", flat=True).distinct())
    return {"nodes": sum(_refresh(node_id, start_ms, end_ms) for node_id in nodes)}


@transaction.atomic
def _refresh(node_id: int, start_ms: int, end_ms: int) -> bool:
    if not try_node_lock(SEALING, node_id):
        return False
    fresh = hot.decode(hot.marked_since(node_id, start_ms), COLUMNS).windows
    table = started_in(joined([fresh], ints=WINDOW_INTS, keys=WINDOW_KEYS), start_ms, end_ms)
    write(node_id, table, start_ms=start_ms, count=(end_ms - 1 - start_ms) // CELL_MS + 1)
    return True


def _spliced(row: DayMatrix, gpu_ids: list[int], first: int, fresh: Bytes) -> DayMatrix:
    """The row with the fresh cells in place; a GPU it does not know yet is added below, missing elsewhere."""
    order = [*row.gpu_ids, *(gpu for gpu in gpu_ids if gpu not in row.gpu_ids)]
    whole = np.full((len(order), CELLS_PER_DAY), MISSING, dtype=np.uint8)
    whole[: len(row.gpu_ids)] = np.frombuffer(bytes(row.cells), dtype=np.uint8).reshape(-1, CELLS_PER_DAY)
    places = [order.index(gpu) for gpu in gpu_ids]
    cells_there = whole[places, first : first + fresh.shape[1]]
    # what was once observed stays observed: windows never vanish
    whole[places, first : first + fresh.shape[1]] = np.where(fresh == MISSING, cells_there, fresh)
    row.gpu_ids, row.cells = order, whole.tobytes()
    row.pk = None
    return row


def _memory_bytes(table: Table) -> dict[int, int | None]:
    gpu_ids = [int(gpu) for gpu in np.unique(table["gpu_id"])]
    return dict(GPU.objects.filter(pk__in=gpu_ids).values_list("pk", "memory_total_bytes"))
