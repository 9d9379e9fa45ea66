"""Rows of diagnosis, every field defaulted: a test names only what it is about."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from fleetwatch.costs.models import Rate
from fleetwatch.diagnosis.models import CapacityEntry, CauseEntry, DiagnosedDay, Finding
from fleetwatch.inventory.models import GPU, GPUModel, Node
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.models import NodeDay
from fleetwatch.lib.intervals import HOUR_MS, to_ms

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
DAY = timedelta(days=1)
WASTE = (
    "idle_certain_ms",
    "idle_probable_ms",
    "stalled_probable_ms",
    "stalled_potential_ms",
    "underused_ms",
)


def gpu(index: int = 0, *, node: str = "n1") -> GPU:
    on, _ = Node.objects.get_or_create(name=node)
    model, _ = GPUModel.objects.get_or_create(name="H100 SXM")
    found, _ = GPU.objects.get_or_create(
        uuid=f"GPU-{node}-{index}",
        defaults={"node": on, "index": index, "model": model, "first_ms": 0},
    )
    return found


def rate(usd: str = "2.00", *, valid_from: datetime = NOW - 100 * DAY) -> Rate:
    model, _ = GPUModel.objects.get_or_create(name="H100 SXM")
    Rate.objects.filter(gpu_model=model, valid_to=None).update(valid_to=valid_from)
    return Rate.objects.create(
        gpu_model=model,
        price_per_gpu_hour=Decimal(usd),
        valid_from=valid_from,
        created_at=valid_from,
    )


def job(key: str = "slurm/della/7", **facts: Any) -> Job:
    _, _, number = key.rpartition("/")
    defaults = {"scheduler": "slurm", "external_id": number, "name": "train", "user": "ann"}
    found, _ = Job.objects.get_or_create(key=key, defaults=defaults | facts)
    return found


def cause(
    cause: str = "idle_held",
    *,
    of: Job | None = None,
    on: GPU | None = None,
    start: datetime = NOW - timedelta(hours=2),
    hours: float = 1,
    low: float = 0.5,
    high: float = 1.0,
    waste: str = "idle_certain_ms",
    **facts: Any,
) -> CauseEntry:
    """An hour of one GPU, all of it wasted; `low` and `high` are shares of it."""
    of, on, ms = of or job(), on or gpu(), round(hours * HOUR_MS)
    return CauseEntry.objects.create(
        node=on.node, gpu=on, start=start, job=of, cause=cause,
        confidence=facts.pop("confidence", 3), cells=0b111111111111, held_ms=ms,
        **{name: ms if name == waste else 0 for name in WASTE}, low_ms=int(ms * low),
        high_ms=int(ms * high), **facts,
    )  # fmt: skip


def finding(of: Job | None = None, cause: str = "idle_held", **facts: Any) -> Finding:
    span = {"first_ms": to_ms(NOW - 30 * DAY), "last_ms": to_ms(NOW)}
    return Finding.objects.create(job=of or job(), cause=cause, **(span | facts))


def diagnosed(
    day: datetime, *, node: str = "n1", version: int = 1, posted: int = 1, **facts: Any
) -> DiagnosedDay:
    """A node's day, diagnosed at `version` of a ledger that stands at `posted`."""
    on, _ = Node.objects.get_or_create(name=node)
    NodeDay.objects.create(node=on, day=day.date(), versions=[posted] * 24)
    return DiagnosedDay.objects.create(node=on, day=day.date(), versions=[version] * 24, **facts)


def capacity(
    cause: str,
    *,
    on: GPU | None = None,
    cluster: str = "",
    start: datetime = NOW - timedelta(hours=2),
    low: float = 1,
    high: float = 1,
) -> CapacityEntry:
    """An hour of one GPU that no job explains; `low` and `high` are shares of it."""
    on = on or gpu()
    return CapacityEntry.objects.create(
        node=on.node,
        gpu=on,
        cluster=cluster,
        start=start,
        cause=cause,
        gpu_ms=HOUR_MS,
        low_ms=int(HOUR_MS * low),
        high_ms=int(HOUR_MS * high),
    )


def place(cause: str, *, node: Node | None = None, cluster: str = "", **facts: Any) -> Finding:
    """A finding of a node or a cluster, of the last day."""
    span = {"first_ms": to_ms(NOW - DAY), "last_ms": to_ms(NOW)}
    return Finding.objects.create(node=node, cluster=cluster, cause=cause, **(span | facts))
