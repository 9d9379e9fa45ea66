"""Nodes, GPUs, jobs, rates and ledger entries, every field defaulted."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import count

from fleetwatch.accounts.models import Team
from fleetwatch.budgets import budgets
from fleetwatch.budgets.models import Budget
from fleetwatch.costs import services, sites
from fleetwatch.costs.models import NodePlace, Rate, Region
from fleetwatch.costs.tco import Component
from fleetwatch.inventory.models import GPU, GPUModel, Node
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.hour_rows import count_versions
from fleetwatch.ledger.models import Entry, Policy, Run
from fleetwatch.lib.intervals import to_ms
from tests import stored_runs

HOUR = datetime(2026, 11, 2, 9, tzinfo=UTC)
HOUR_MS = 3_600_000
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
_numbers = count(1)


def a_gpu(
    *,
    node: str = "gpu-01",
    model: str | None = "H100 SXM",
    uuid: str | None = None,
    parent: GPU | None = None,
    **fields: object,
) -> GPU:
    number = next(_numbers)
    home, _ = Node.objects.get_or_create(
        name=node, defaults={"last_ms": fields.get("last_ms", to_ms(HOUR))}
    )
    product = GPUModel.objects.get_or_create(name=model)[0] if model else None
    defaults = {
        "index": number % 8,
        "first_ms": 1_793_000_000_000,
        "last_ms": to_ms(HOUR),
        "model_name": model or "",
        "memory_total_bytes": 85_520_809_984,
    }
    return GPU.objects.create(
        uuid=uuid or f"GPU-{number:04}",
        node=home,
        model=product,
        parent=parent,
        **(defaults | fields),
    )


def a_job(
    *, key: str | None = None, user: str = "ann", team: str | None = "nlp", **fields: object
) -> Job:
    payer = (
        Team.objects.get_or_create(slug=team, defaults={"name": team.upper()})[0] if team else None
    )
    return Job.objects.create(
        key=key or f"slurm/della/{next(_numbers)}", user=user, team=payer, **fields
    )


def a_rate(
    usd: str,
    *,
    gpu: GPU | None = None,
    node: str | None = None,
    pool: str = "",
    only: GPU | None = None,
    valid_from: datetime = LONG_AGO,
    **fields: object,
) -> Rate:
    """For the GPU's model, or for the node of that name, the pool, or that GPU only."""
    subject = (
        {"node": Node.objects.get(name=node)}
        if node
        else {"gpu": only}
        if only
        else {"pool": pool}
        if pool
        else {"gpu_model": gpu.model}
    )
    return Rate.objects.create(
        price_per_gpu_hour=Decimal(usd), valid_from=valid_from, created_at=HOUR, **subject, **fields
    )


def a_place(
    node: str,
    *,
    pool: str = "",
    node_class: str = "",
    region: str = "",
    valid_from: datetime = LONG_AGO,
    valid_to: datetime | None = None,
) -> NodePlace:
    place = {"pool": pool, "node_class": node_class, "region": region}
    return NodePlace.objects.create(
        node=Node.objects.get(name=node), valid_from=valid_from, valid_to=valid_to, **place
    )


def a_policy() -> Policy:
    return Policy.objects.get_or_create(version=1, defaults={"thresholds": {}, "created_at": HOUR})[
        0
    ]


def an_entry(gpu: GPU, state: str = "useful", gpu_ms: int = HOUR_MS, **fields: object) -> Entry:
    entry = unsaved_entry(gpu, state, gpu_ms, policy=a_policy(), **fields)
    entry.save()
    return entry


def unsaved_entry(
    gpu: GPU,
    state: str,
    gpu_ms: int,
    *,
    policy: Policy,
    job: Job | None = None,
    start: datetime = HOUR,
    **fields: object,
) -> Entry:
    defaults = {
        "tier": {"free": "potential", "orphaned": "certain", "stalled": "probable"}.get(state, "")
    }
    return Entry(
        node=gpu.node,
        gpu=gpu,
        start=start,
        job=job,
        state=state,
        gpu_ms=gpu_ms,
        policy=policy,
        **(defaults | fields),
    )


def counted_all(entries: Collection[Entry]) -> None:
    """Saves them as posting does: their hours have new versions."""
    Entry.objects.bulk_create(entries)
    hours = defaultdict(list)
    for entry in entries:
        hours[entry.node_id].append(to_ms(entry.start) // HOUR_MS * HOUR_MS)
    count_versions(hours)


def a_run(
    gpu: GPU,
    *,
    start_ms: int,
    end_ms: int,
    condition: str = "active",
    job: Job | None = None,
    **fields: object,
) -> Run:
    run = Run(
        node=gpu.node,
        gpu=gpu,
        job=job,
        condition=condition,
        start_ms=start_ms,
        end_ms=end_ms,
        **fields,
    )
    stored_runs.store(run)
    return run


def set_rate(
    subject: dict[str, object] | GPU | Node | GPUModel,
    price: Decimal,
    *,
    now: datetime,
    components: Sequence[Component] = (),
    **terms: object,
) -> Rate:
    """As the services do, of what a subject is said to cost."""
    kinds = {GPU: "gpu", Node: "node", GPUModel: "gpu_model"}
    whom = subject if isinstance(subject, dict) else {kinds[type(subject)]: subject}
    rate = Rate(**whom, price_per_gpu_hour=price, **terms)
    return services.set_rate(rate, now=now, components=components)


def set_region(name: str, **facts: object) -> Region:
    return sites.set_region(Region(name=name, **facts))


def set_budget(
    team: Team | None,
    month: date,
    amount: Decimal | None,
    *,
    now: datetime,
    by: str,
    **terms: object,
) -> Budget:
    return budgets.set_budget(
        Budget(team=team, month=month, amount=amount, **terms), now=now, by=by
    )
