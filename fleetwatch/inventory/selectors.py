"""Reads of inventory."""

from django.db.models import Q, QuerySet

from fleetwatch.inventory.models import GPU, Node

# Accounting is imported with a boot that began at 0 (docs/wire.md); who sent nothing but that runs no agent. [] is nothing yet.
RUNS_AN_AGENT = Q(last_ms__isnull=False) | Q(facts_order=[]) | Q(facts_order__0__gt=0)


def hosts() -> QuerySet[Node]:
    """The nodes that run an agent, or are to: without those that only ever imported accounting."""
    return Node.objects.filter(RUNS_AN_AGENT)


def nodes() -> list[Node]:
    """All nodes by name, each with its GPUs (`gpus.all()` asks nothing more)."""
    return list(Node.objects.prefetch_related("gpus__model", "gpus__parent").order_by("name"))


def node(name: str) -> Node | None:
    """The node of that name; None when there is none."""
    return Node.objects.filter(name=name).first()


def gpus(*, node_name: str | None = None, with_retired: bool = False) -> list[GPU]:
    """GPUs that were ever observed, by node and index, MIG instances after their parents; without retired ones unless asked."""
    rows = GPU.objects.select_related("node", "model", "parent").filter(first_ms__isnull=False)
    if node_name is not None:
        rows = rows.filter(node__name=node_name)
    if not with_retired:
        rows = rows.filter(retired_ms__isnull=True)
    return list(rows.order_by("node__name", "index", "uuid"))


def gpu(uuid: str) -> GPU | None:
    """The GPU of that UUID; None when there is none."""
    return GPU.objects.select_related("node", "model", "parent").filter(uuid=uuid).first()


def has_data() -> bool:
    """Whether any GPU was ever observed: without, pages show the welcome."""
    return GPU.objects.filter(first_ms__isnull=False).exists()
