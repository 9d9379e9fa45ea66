"""Batches of one node through the real door, for tests of posting."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from agent import wire
from fleetwatch.ingest.services import store_batch
from fleetwatch.inventory.services import node_by_name
from fleetwatch.ledger import services
from fleetwatch.ledger.models import Entry, Run
from fleetwatch.lib.intervals import HOUR_MS, from_ms, to_ms

START = datetime(2026, 11, 20, 6, tzinfo=UTC)
T0 = to_ms(START)
NOW = START + timedelta(hours=12)
MINUTE = 60_000
GIB = 2**30

QUIET = {"util_mean": 0.0, "util_max": 0.0, "memory_used_bytes": 60 * GIB, "process_count": 1}
BUSY = QUIET | {"util_mean": 1.0, "util_max": 1.0}
HALF = QUIET | {"util_mean": 0.5, "util_max": 1.0, "power_w": 300.0, "energy_j": 18_000.0}
EMPTY = {"util_mean": 0.0, "util_max": 0.0, "memory_used_bytes": 0, "process_count": 0}


def a_job(key: str = "slurm/della/7", **facts: Any) -> dict[str, Any]:
    return {
        "key": key,
        "scheduler": "slurm",
        "cluster": "della",
        "id": key.rsplit("/", 1)[1],
        "user": "ann",
        **facts,
    }


def held(
    gpu: int = 0, job: int = 0, start: int = T0, end: int | None = None, **facts: Any
) -> dict[str, Any]:
    return {"gpu": gpu, "job": job, "start_ms": start, "end_ms": end, "source": "slurm", **facts}


@dataclass
class Sender:
    """One agent: each call is the next batch, of minute windows unless told otherwise."""

    node: str = "n1"
    gpus: int = 1
    sequence: int = 0
    boot_id: str = "boot-1"
    owner: str = ""  # the node whose GPUs it has; its own without
    extra_gpus: list[dict[str, Any]] = field(default_factory=list)

    def batch(
        self, start_ms: int, *says: dict[str, float] | None, window_s: int = 60, **keys: Any
    ) -> dict[str, Any]:
        """What each GPU says window by window from `start_ms` on; None = no window."""
        self.sequence += 1
        gpus = [
            {
                "uuid": f"GPU-{self.owner or self.node}-{place}",
                "index": place,
                "model": "NVIDIA H100 80GB HBM3",
                "power_limit_w": 700.0,
            }
            for place in range(self.gpus)
        ]
        gpus += self.extra_gpus
        cells = [
            (place, start_ms + step * window_s * 1000, said)
            for step, said in enumerate(says)
            if said is not None
            for place in range(len(gpus))
        ]
        names = sorted({name for _, _, said in cells for name in said})
        mapping = {
            "version": 1,
            "node": self.node,
            "boot_id": self.boot_id,
            "boot_start_ms": T0 - HOUR_MS,
            "sequence": self.sequence,
            "window_s": window_s,
            "gpus": gpus,
            "sources": [{"kind": "slurm", "ok": True, "seen_ms": start_ms}],
            "windows": {
                "gpu": [place for place, _, _ in cells],
                "start_ms": [at for _, at, _ in cells],
                "observed_ms": [window_s * 1000] * len(cells),
                **{name: [said.get(name) for _, _, said in cells] for name in names},
            },
        }
        return mapping | keys


def store(mapping: dict[str, Any], *, now: datetime = NOW) -> None:
    store_batch(node_by_name(mapping["node"]), wire.parse(mapping), received_at=now)


def post(*mappings: dict[str, Any], now: datetime = NOW) -> dict[str, int]:
    """Stores the batches and posts all that they touched."""
    for mapping in mappings:
        store(mapping, now=now)
    return services.post(now, 10_000)


def ledger(node: str = "n1") -> list[tuple[Any, ...]]:
    """The node's entries without ids, in order; two nodes that saw the same have equal ledgers."""
    rows = Entry.objects.filter(node__name=node).values_list(
        "gpu__index",
        "start",
        "job__key",
        "state",
        "kind",
        "reason",
        "signal",
        "efficiency_source",
        "tier",
        "gpu_ms",
        "energy_j",
    )
    return sorted(rows, key=repr)


def parts(node: str = "n1") -> list[tuple[Any, ...]]:
    rows = Run.objects.filter(node__name=node).values_list(
        "gpu__index",
        "job__key",
        "condition",
        "start_ms",
        "end_ms",
        "continues",
        "state_ms",
        "figures",
    )
    return sorted(rows, key=repr)


def states(node: str = "n1", *names: str) -> dict[Any, int]:
    """GPU-ms by state (or the named fields) of the node's entries."""
    found: dict[Any, int] = {}
    fields = names or ("state",)
    for *key, gpu_ms in Entry.objects.filter(node__name=node).values_list(*fields, "gpu_ms"):
        name = tuple(key) if len(key) > 1 else key[0]
        found[name] = found.get(name, 0) + gpu_ms
    return found


def hour(number: int) -> datetime:
    return from_ms(T0 + number * HOUR_MS)
