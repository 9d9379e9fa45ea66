"""Rows for pages, every field defaulted; times are hours before NOW's hour."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from fleetwatch.accounts.models import Team, User
from fleetwatch.costs.models import Rate
from fleetwatch.inventory.models import GPU, GPUModel, Node
from fleetwatch.jobs.models import Allocation, Job
from fleetwatch.ledger.models import Entry, Policy, Run
from fleetwatch.lib.intervals import HOUR_MS, to_ms

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
PASSWORD = "correct horse battery"
TIER = {
    "orphaned": "certain",
    "idle": "certain",
    "stalled": "probable",
    "underused": "potential",
    "free": "potential",
}


def user(*, role: str = "admin", username: str = "ann") -> User:
    person = User(username=username, role=role)
    person.set_password(PASSWORD)
    person.save()
    return person


def node(name: str = "node-001", *, now: datetime = NOW, **fields: Any) -> Node:
    defaults = {
        "last_ms": to_ms(now),
        "last_received_at": now,
        "agent": {"version": "1.0.0", "driver": "580.159.04", "source": "nvml"},
    }
    return Node.objects.create(name=name, **defaults | fields)


def gpu_model(name: str = "H100 SXM", **fields: Any) -> GPUModel:
    return GPUModel.objects.get_or_create(
        name=name, defaults={"idle_w": 70.0, "limit_w": 700.0} | fields
    )[0]


def gpu(on: Node, *, index: int = 0, now: datetime = NOW, hours: int = 24, **fields: Any) -> GPU:
    defaults = {
        "uuid": f"GPU-{on.name}-{index}",
        "model": gpu_model(),
        "model_name": "NVIDIA H100 80GB HBM3",
        "memory_total_bytes": 85_520_809_984,
        "power_limit_w": 700.0,
        "first_ms": to_ms(now) - hours * HOUR_MS,
        "last_ms": to_ms(now),
    }
    return GPU.objects.create(node=on, index=index, **defaults | fields)


def rate(usd: str = "2.00", *, model: GPUModel | None = None, **fields: Any) -> Rate:
    valid_from = datetime(2026, 1, 1, tzinfo=UTC)
    defaults = {"valid_from": valid_from, "created_at": valid_from, "is_example": False}
    return Rate.objects.create(
        gpu_model=model or gpu_model(), price_per_gpu_hour=Decimal(usd), **defaults | fields
    )


def job(
    key: str = "slurm/della/4711",
    *,
    name: str = "train",
    user: str = "ann",
    team: str = "nlp",
    **fields: Any,
) -> Job:
    row = Team.objects.get_or_create(slug=team, defaults={"name": team})[0] if team else None
    scheduler, cluster, external_id = [*key.split("/", 2), "", ""][:3]
    defaults = {
        "scheduler": scheduler,
        "cluster": cluster,
        "external_id": external_id,
        "state": "RUNNING",
    }
    return Job.objects.create(
        key=key, name=name, user=user, account=team, team=row, **defaults | fields
    )


def policy() -> Policy:
    return Policy.objects.get_or_create(version=1, defaults={"thresholds": {}, "created_at": NOW})[
        0
    ]


def entry(
    on: GPU,
    *,
    hours_ago: int,
    state: str = "useful",
    gpu_ms: int = HOUR_MS,
    held_by: Job | None = None,
    now: datetime = NOW,
    by: Policy | None = None,
    **fields: Any,
) -> Entry:
    """Not saved yet; many are made quickly where they are told whose policy judged them."""
    start = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=hours_ago)
    said = {"state": state, "tier": TIER.get(state, ""), "policy": by or policy()}
    return Entry(
        node_id=on.node_id, gpu=on, start=start, job=held_by, gpu_ms=gpu_ms, **said | fields
    )


def run(
    on: GPU,
    *,
    hours_ago: float,
    hours: float,
    states: dict[str, int],
    held_by: Job | None = None,
    now: datetime = NOW,
    **fields: Any,
) -> Run:
    start_ms = to_ms(now) - int(hours_ago * HOUR_MS)
    condition = "quiet" if "idle" in states else next(iter(states)) if held_by is None else "active"
    defaults = {
        "condition": condition,
        "end_ms": start_ms + int(hours * HOUR_MS),
        "state_ms": states,
    }
    return Run(node_id=on.node_id, gpu=on, job=held_by, start_ms=start_ms, **defaults | fields)


def hold(
    on: GPU, by: Job, *, hours_ago: float, hours: float, source: str = "slurm", now: datetime = NOW
) -> Allocation:
    start_ms = to_ms(now) - int(hours_ago * HOUR_MS)
    return Allocation.objects.create(
        gpu=on,
        job=by,
        source=source,
        share=1.0,
        asserted=[(start_ms, start_ms + int(hours * HOUR_MS))],
    )
