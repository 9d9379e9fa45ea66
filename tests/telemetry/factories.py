"""Nodes with GPUs, wire batches and stored batches for the tests of telemetry."""

from datetime import UTC, datetime
from typing import Any

from agent import wire
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.lib.intervals import to_ms
from fleetwatch.telemetry import services
from fleetwatch.telemetry.models import Batch

HOUR = datetime(2026, 11, 20, 10, tzinfo=UTC)
HOUR_START_MS = to_ms(HOUR)


def make_node(name: str = "gpu-07", *, gpus: int = 2) -> Node:
    node = Node.objects.create(name=name)
    for index in range(gpus):
        GPU.objects.create(
            uuid=f"GPU-{name}-{index}",
            node=node,
            index=index,
            memory_total_bytes=80_000_000_000,
            power_limit_w=700.0,
            first_ms=0,
        )
    return node


def make_batch(node: Node, **changes: Any) -> wire.Batch:
    """Two windows of GPU 0 at the start of HOUR unless told otherwise."""
    starts = changes.pop("starts", [HOUR_START_MS, HOUR_START_MS + 10_000])
    window_s = changes.pop("window_s", 10)
    columns = changes.pop("columns", {"util_mean": [0.5] * len(starts)})
    positions = changes.pop("positions", [0] * len(starts))
    observed = changes.pop("observed", [window_s * 1000] * len(starts))
    values: dict[str, Any] = {
        "node": node.name,
        "boot_id": "boot-a",
        "boot_start_ms": HOUR_START_MS - 86_400_000,
        "sequence": 1,
        "window_s": window_s,
        "gpus": [{"uuid": gpu.uuid, "index": gpu.index} for gpu in node.gpus.order_by("index")],
        "windows": {"gpu": positions, "start_ms": starts, "observed_ms": observed, **columns},
    }
    return wire.Batch(**(values | changes))


def store(node: Node, batch: wire.Batch | None = None, **changes: Any) -> Batch:
    """The batch as ingest stores it, received an hour and five minutes after HOUR began unless told
    otherwise.
    """
    offset_ms = changes.pop("offset_ms", 0)
    received_at = changes.pop("received_at", datetime(2026, 11, 20, 11, 5, tzinfo=UTC))
    quarantined = changes.pop("quarantined", False)
    batch = batch or make_batch(node, **changes)
    body = wire.encode(batch)
    parsed = wire.decode(body)
    return services.append_batch(
        node,
        parsed,
        wire.compress(body),
        offset_ms=offset_ms,
        received_at=received_at,
        quarantined=quarantined,
    )
