"""A sealed hour made hot again: its windows as agents' batches of a minute, which come in as time
goes on, as in a living fleet.
"""

import math
from collections.abc import Sequence

import numpy as np

from agent import packed, wire
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.lib.intervals import HOUR_MS, from_ms
from fleetwatch.telemetry import codec, services
from fleetwatch.telemetry.models import Chunk
from fleetwatch.telemetry.window_tables import WINDOW_INTS, Table, started_in

MINUTE_MS = 60_000


def cut(start_ms: int) -> dict[int, Table]:
    """Node -> its windows of the clock hour that begins then, the last one of its chunk: they are
    no longer sealed.
    """
    found = {}
    for chunk in Chunk.objects.filter(
        start__lt=from_ms(start_ms), end=from_ms(start_ms + HOUR_MS)
    ).iterator(chunk_size=1):
        table = codec.unpack(bytes(chunk.payload))
        found[chunk.node_id] = started_in(table, start_ms, start_ms + HOUR_MS)
        rest = started_in(table, 0, start_ms)
        chunk.payload, chunk.window_count, chunk.end = (
            codec.pack(rest),
            len(rest["start_ms"]),
            from_ms(start_ms),
        )
        chunk.save(update_fields=["payload", "window_count", "end"])
    return found


def come_in(hour: dict[int, Table], start_ms: int, end_ms: int) -> None:
    """The windows that start in [start_ms, end_ms) are stored as the door stores them; who held
    which GPU was told before.
    """
    nodes, uuids = Node.objects.in_bulk(list(hour)), dict(GPU.objects.values_list("pk", "uuid"))
    for minute_ms in range(start_ms, end_ms, MINUTE_MS):
        for node_id, table in hour.items():
            told = started_in(table, minute_ms, minute_ms + MINUTE_MS)
            if len(told["start_ms"]):
                batch = _batch(nodes[node_id].name, told, uuids)
                payload = packed.pack(batch)
                services.append_batch(
                    nodes[node_id],
                    batch,
                    payload,
                    offset_ms=0,
                    received_at=from_ms(minute_ms),
                    quarantined=False,
                )


def _batch(node: str, told: Table, uuids: dict[int, str]) -> wire.Batch:
    """What the agent of a Slurm cluster sends, whose queue is empty."""
    gpu_ids = np.unique(told["gpu_id"])
    starts = np.unique(told["start_ms"]).tolist()
    return wire.Batch(
        node=node,
        boot_id="hot hour",
        boot_start_ms=int(told["boot_start_ms"][0]),
        sequence=starts[0] // MINUTE_MS,
        window_s=int(told["window_ms"][0]) // 1000,
        gpus=[{"uuid": uuids[gpu]} for gpu in gpu_ids.tolist()],
        windows={
            "gpu": np.searchsorted(gpu_ids, told["gpu_id"]).tolist(),
            "start_ms": told["start_ms"].tolist(),
            "observed_ms": told["observed_ms"].tolist(),
            **{
                name: _numbers(values.tolist())
                for name, values in told.items()
                if name not in WINDOW_INTS
            },
        },
        host={"start_ms": starts, "pending_gpus": [0.0] * len(starts)},
    )


def _numbers(values: Sequence[float]) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values]
