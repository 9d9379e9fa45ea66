"""Day matrices: five-minute cells written into the rows that heat maps read, and read back."""

import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from itertools import chain
from typing import NamedTuple

import numpy as np
from django.db import transaction

from fleetwatch.inventory.models import GPU
from fleetwatch.lib import rows
from fleetwatch.lib.array_types import Bytes, Floats, Ints
from fleetwatch.lib.batched import integers, run
from fleetwatch.lib.intervals import Interval, floor_hour_ms, from_ms, to_ms
from fleetwatch.lib.sql import read_statement
from fleetwatch.telemetry import hot
from fleetwatch.telemetry.heat_cells import (
    CELL_MS,
    CELLS_PER_DAY,
    COLUMNS,
    DAY_MS,
    MISSING,
    POWER,
    STEPS,
    TOP,
    bytes_of,
    in_steps,
    stretched,
    stretched_bytes,
)
from fleetwatch.telemetry.locks import SEALING, try_node_locks
from fleetwatch.telemetry.models import SealMark
from fleetwatch.telemetry.window_tables import Table, joined, started_in

# Open hours are drawn from the cells before now that can still change: this one and the two before
# it.
RECENT_CELLS = 3
NODES_AT_ONCE = 32  # in one transaction
STORE = read_statement("telemetry/sql/store_matrices.sql")

DAYS = read_statement("telemetry/sql/days_of_matrices.sql")

Key = tuple[int, date, str]  # node id, day, metric
DayRows = dict[int, Bytes]  # GPU id -> its 288 cells
NO_GPU = -1


class Drawing(NamedTuple):
    """Windows of a node that start in its cells from `start_ms` on."""

    node_id: int
    start_ms: int
    windows: Table

    @property
    def day(self) -> date:
        return from_ms(self.start_ms).date()


def store(drawings: Sequence[Drawing], *, count: int) -> None:
    """Replaces `count` cells from each start on, within one UTC day, for the GPUs that have windows
    there.

    Call it in a transaction that holds the nodes' sealing locks.
    """
    drawings = [drawing for drawing in drawings if len(drawing.windows["start_ms"])]
    if not drawings:
        return
    stored = _stored(drawings)
    memory = _memory_bytes(drawings)
    drawn: dict[Key, DayRows] = {}
    for drawing in drawings:
        gpu_ids, cells = bytes_of(
            drawing.windows, start_ms=drawing.start_ms, count=count, memory_bytes=memory
        )
        first = drawing.start_ms % DAY_MS // CELL_MS
        for metric, fresh in cells.items():
            key = (drawing.node_id, drawing.day, metric)
            day_rows = drawn.setdefault(key, stored.get(key, {}))
            for gpu_id, row in zip(gpu_ids, fresh, strict=True):
                _put(day_rows, gpu_id, first, row)
    _write(drawn)


def _put(day_rows: DayRows, gpu_id: int, first: int, fresh: Bytes) -> None:
    """The GPU's fresh cells from the first on; what was once observed stays observed: windows never
    vanish.
    """
    day = day_rows.setdefault(gpu_id, np.full(CELLS_PER_DAY, MISSING, dtype=np.uint8))
    cells = day[first : first + len(fresh)]
    cells[:] = _filled(fresh, cells)


def _memory_bytes(drawings: Sequence[Drawing]) -> dict[int, int | None]:
    """The total memory of every GPU in the drawings."""
    gpu_ids = {gpu for each in drawings for gpu in np.unique(each.windows["gpu_id"]).tolist()}
    return dict(
        rows.fetched(
            "SELECT id, memory_total_bytes FROM inventory_gpu WHERE id = ANY(%s::bigint[])",
            [sorted(gpu_ids)],
        )
    )


def refresh_recent(now: datetime, *, count: int = RECENT_CELLS) -> dict[str, int]:
    """How many nodes' newest `count` cells were drawn again from batches that are not sealed yet;
    nodes that another worker has are left to it.

    Heat maps reach up to now; sealing later writes the same cells from the whole hour.
    """
    end_ms = to_ms(now)
    start_ms = (end_ms // CELL_MS - count + 1) * CELL_MS
    hours = {from_ms(floor_hour_ms(moment)) for moment in (start_ms, end_ms)}
    marked = SealMark.objects.filter(hour__in=hours).order_by("node_id")
    nodes = list(marked.values_list("node_id", flat=True).distinct())
    return {
        "nodes": sum(
            _refresh(nodes[first : first + NODES_AT_ONCE], start_ms, end_ms)
            for first in range(0, len(nodes), NODES_AT_ONCE)
        )
    }


def cells(metric: str, gpu_ids: Sequence[int], interval: Interval, count: int) -> Floats:
    """GPUs x `count` equal steps of the interval: `util`, `power` or `memory` as a ratio, 0 to 1;
    NaN = nothing observed.

    A step longer than five minutes is the mean of its cells that were observed; a
    shorter one shows the cell that it starts in. Power is by the GPU's limit.
    """
    first_cell = interval.start_ms // CELL_MS
    stored = _stored_cells(metric, gpu_ids, first_cell, -(-interval.end_ms // CELL_MS))
    # there are but 256 bytes: what each stands for is looked up
    every = np.arange(256, dtype=np.uint8)
    values = np.where(every == MISSING, np.nan, every * STEPS[metric])
    if metric == POWER:
        ratios = np.minimum(values[stored] / _limits_w(gpu_ids).reshape(-1, 1), 1.0)
    else:
        ratios = np.minimum(values, 1.0)[stored]
    return stretched(
        ratios,
        first_ms=first_cell * CELL_MS,
        start_ms=interval.start_ms,
        end_ms=interval.end_ms,
        count=count,
    )


def shades(metric: str, gpu_ids: Sequence[int], interval: Interval, count: int) -> Bytes:
    """What `cells` gives, as bytes: a ratio in steps of 1 / TOP, MISSING = nothing observed."""
    step_ms, rest_ms = divmod(interval.duration_ms, count)
    is_whole = not (rest_ms or step_ms % CELL_MS or interval.start_ms % CELL_MS)
    if metric == POWER or not is_whole:
        return in_steps(cells(metric, gpu_ids, interval, count), 1 / TOP)
    # they are stored so
    first_cell = interval.start_ms // CELL_MS
    stored = _stored_cells(metric, gpu_ids, first_cell, interval.end_ms // CELL_MS)
    return stretched_bytes(stored, per_step=step_ms // CELL_MS)


def _stored_cells(metric: str, gpu_ids: Sequence[int], first_cell: int, last_cell: int) -> Bytes:
    """GPUs x cells in [first_cell, last_cell), cells counted from the epoch."""
    first_day = first_cell // CELLS_PER_DAY
    days = -(-last_cell // CELLS_PER_DAY) - first_day
    whole = np.full((len(gpu_ids), days, CELLS_PER_DAY), MISSING, dtype=np.uint8)
    wanted = np.array(gpu_ids, dtype=np.int64)
    asked = _asked(metric, first_day, days)
    for day, of_nodes, packed in rows.fetched(*asked, is_fixed=True):
        row_ids = np.fromiter(chain.from_iterable(of_nodes), dtype=np.int64)
        _fill(whole[:, day], wanted, row_ids, _cells_in(packed))
    start = first_day * CELLS_PER_DAY
    return whole.reshape(len(gpu_ids), -1)[:, first_cell - start : last_cell - start]


def asked_days(metric: str, interval: Interval) -> rows.Asked:
    """What `cells` and `shades` ask of the interval, and of one in whole steps around it that lies
    in the same days.
    """
    first_day = interval.start_ms // DAY_MS
    return _asked(metric, first_day, -(-interval.end_ms // DAY_MS) - first_day)


def _asked(metric: str, first_day: int, days: int) -> rows.Asked:
    first = from_ms(first_day * DAY_MS).date()
    return rows.Asked(DAYS, {"metric": metric, "first": first, "days": days})


def _fill(cells: Bytes, wanted: Ints, gpu_ids: Ints, fresh: Bytes) -> None:
    """Puts the fresh cells of GPUs in the places of those that are wanted: one that moved has a
    part of the day under each of its nodes.
    """
    order = np.argsort(wanted)
    at = np.searchsorted(wanted[order], gpu_ids)
    is_wanted = np.append(wanted[order], NO_GPU)[at] == gpu_ids
    place = order[at[is_wanted]]
    fresh = fresh[is_wanted]
    if np.bincount(place).max(initial=0) < 2 and (cells == MISSING).all():
        cells[place] = fresh
        return
    while len(place):  # as often as one is there
        _, first = np.unique(place, return_index=True)
        cells[place[first]] = _filled(cells[place[first]], fresh[first])
        place = np.delete(place, first)
        fresh = np.delete(fresh, first, axis=0)


def _filled(cells: Bytes, others: Bytes) -> Bytes:
    """The cells, of those that are missing the others."""
    return np.where(cells == MISSING, others, cells)


def _limits_w(gpu_ids: Sequence[int]) -> Floats:
    """Each GPU's power limit, else its model's; NaN when neither is known."""
    gpus = GPU.objects.filter(pk__in=gpu_ids).values_list("pk", "power_limit_w", "model__limit_w")
    limits = {gpu_id: own or models or np.nan for gpu_id, own, models in gpus}
    return np.array([limits.get(gpu_id, np.nan) for gpu_id in gpu_ids], dtype=np.float64)


@transaction.atomic
def _refresh(node_ids: Sequence[int], start_ms: int, end_ms: int) -> int:
    mine = sorted(try_node_locks(SEALING, node_ids))
    fresh = hot.unsealed(mine, (start_ms, end_ms), COLUMNS, ends_after_ms=start_ms)
    windows = {node_id: joined([each.windows]) for node_id, each in fresh.items()}
    midnight_ms = max(start_ms, end_ms // DAY_MS * DAY_MS)
    for first_ms, last_ms in ((start_ms, midnight_ms), (midnight_ms, end_ms)):
        drawings = [
            Drawing(node_id, first_ms, started_in(each, first_ms, last_ms))
            for node_id, each in windows.items()
        ]
        store(drawings, count=(last_ms - 1 - first_ms) // CELL_MS + 1)
    return len(mine)


def _stored(drawings: Sequence[Drawing]) -> dict[Key, DayRows]:
    """The nodes' days as they are; a GPU that is not there has no cell yet."""
    matrices = rows.fetched(
        "SELECT node_id, day, metric, gpu_ids, cells FROM telemetry_daymatrix"
        " WHERE node_id = ANY(%s::bigint[]) AND day = ANY(%s::date[]) FOR UPDATE",
        [list({each.node_id for each in drawings}), list({each.day for each in drawings})],
    )
    return {
        (node_id, day, metric): dict(zip(gpu_ids, _cells_in(cells).copy(), strict=True))
        for node_id, day, metric, gpu_ids, cells in matrices
    }


def _cells_in(packed: bytes) -> Bytes:
    return np.frombuffer(packed, dtype=np.uint8).reshape(-1, CELLS_PER_DAY)


def _write(matrices: Mapping[Key, DayRows]) -> None:
    run(
        STORE,
        {
            "nodes": integers(node_id for node_id, _, _ in matrices),
            "days": [day for _, day, _ in matrices],
            "metrics": [metric for _, _, metric in matrices],
            "gpu_ids": [json.dumps(list(day_rows)) for day_rows in matrices.values()],
            "cells": [
                np.stack(list(day_rows.values())).tobytes() for day_rows in matrices.values()
            ],
        },
    )
