"""GPUs that change nodes: the stay at the former node ends and keeps its row, at the new one another begins.

The ledger judges a node's GPUs by that node's windows. So the time before a move stays with the node
that observed it, and no hour of a GPU is billed on two nodes. The row of a stay that ended is named
"<UUID>@<its first ms>"; the bare UUID is always where the GPU is now.
"""

import re
from dataclasses import dataclass

import structlog

from fleetwatch.inventory.models import GPU, Node
from fleetwatch.inventory.steady import forget
from fleetwatch.lib.spans import Span

MAX_UUID = 80  # of GPU.uuid's 96 characters: "@" and thirteen digits follow
KEPT_FACTS = ("index", "model_name", "model", "memory_total_bytes", "power_limit_w", "sm_count", "mig_profile", "persistence")

log = structlog.get_logger(__name__)


class ForeignGPUError(ValueError):
    """The batch names a GPU that another node is reporting; `position` is its place in the batch."""

    def __init__(self, position: int, uuid: str, node_name: str) -> None:
        super().__init__(f"{uuid} is reported by node {node_name}; two agents on one machine, or a copied UUID")
        self.position = position


@dataclass(frozen=True, slots=True)
class Taken:
    """The node's own row of a GPU; `ended` is (node id, time) of the capacity that ended elsewhere through it."""

    gpu: GPU
    ended: tuple[int, Span] | None = None


def take(node: Node, gpu: GPU, *, position: int, seen: Span | None) -> Taken:
    """The node's own row of the GPU, whoever's `gpu` (locked) is; `seen`: the batch's windows of it.

    The row must be settled (steady.py). A GPU moves only after its former node fell silent about it. What that node's spool still
    sends of the time before goes to its former stay. Raises ForeignGPUError.
    """
    if gpu.node_id == node.pk:
        gpu.node = node
        return Taken(gpu)
    if seen is not None and gpu.last_ms is None:
        gpu.node = node
        gpu.save(update_fields=["node"])
        return Taken(gpu)
    if seen is not None and gpu.last_ms is not None and seen[0] >= gpu.last_ms:
        return _moved(node, gpu)
    former = _former_stay(node, gpu, seen=seen)
    if former is None:
        raise ForeignGPUError(position, gpu.uuid, gpu.node.name)
    return Taken(former)


def is_former(gpu: GPU) -> bool:
    """Whether the row is that of a stay that ended: its capacity ends with its last window."""
    return re.fullmatch(r".+@\d{13}", gpu.uuid) is not None


def _moved(node: Node, gpu: GPU) -> Taken:
    uuid, was, last_ms = gpu.uuid, gpu.node, gpu.last_ms or 0
    end_ms = last_ms if gpu.retired_ms is None else gpu.retired_ms
    forget([was.pk])
    gpu.uuid, gpu.retired_ms = f"{uuid[:MAX_UUID]}@{gpu.first_ms:013d}", end_ms
    gpu.save(update_fields=["uuid", "retired_ms"])
    log.info("gpu moved", gpu=uuid, was=was.name, now=node.name)
    row = GPU.objects.create(uuid=uuid, node=node, **{name: getattr(gpu, name) for name in KEPT_FACTS})
    # from its last hour on: a run that was still open there has ended now
    return Taken(row, ended=(was.pk, (end_ms - 1, max(was.last_ms or 0, end_ms))))


def _former_stay(node: Node, gpu: GPU, *, seen: Span | None) -> GPU | None:
    """The node's newest stay of the GPU that ended, locked; made where `seen` lies before all that is known of the GPU's present.

    None when the windows overlap with what another node observed, or when there are none and no stay either.
    """
    named = GPU.objects.select_for_update(no_key=True).filter(uuid__startswith=f"{gpu.uuid[:MAX_UUID]}@").order_by("-first_ms")
    stays = [stay for stay in named if is_former(stay)]
    own = next((stay for stay in stays if stay.node_id == node.pk), None)
    if seen is None:
        return own
    others = [gpu, *(stay for stay in stays if stay.node_id != node.pk)]
    if gpu.first_ms is None or seen[1] > gpu.first_ms or any(_overlaps(stay, seen) for stay in others):
        return None
    return own or GPU.objects.create(uuid=f"{gpu.uuid[:MAX_UUID]}@{seen[0]:013d}", node=node, retired_ms=seen[1])


def _overlaps(gpu: GPU, seen: Span) -> bool:
    return gpu.first_ms is not None and gpu.last_ms is not None and gpu.first_ms < seen[1] and seen[0] < gpu.last_ms
