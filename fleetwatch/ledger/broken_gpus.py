"""Which GPUs can't work now, by the outages that the last posting took."""

from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from fleetwatch.inventory.models import GPU, Node
from fleetwatch.ledger.judgement.observations import Outage
from fleetwatch.ledger.models import Posted
from fleetwatch.ledger.posted_gpus import outages_of
from fleetwatch.lib.written_once import written_once


@dataclass(frozen=True, slots=True)
class BrokenGPU:
    """A GPU with its node, since when it can't work, and the reason that its driver or platform
    gave last.
    """

    gpu: GPU
    since_ms: int
    reason: str


def broken_gpus(node: Node | None = None) -> list[BrokenGPU]:
    """Of the node, or of all, by node and index; of a silent node those that were broken when it
    was heard last. A drained node's GPUs are not broken, and a MIG instance is its GPU.
    """
    posted = _of_fleet() if node is None else _posted_outages().filter(gpu__node=node)
    lasting = ((pk, _open_faults(*each)) for pk, *each in posted)
    faults = {pk: each for pk, each in lasting if each}
    if not faults:
        return []
    gpus = GPU.objects.select_related("node").in_bulk(faults)
    return [
        BrokenGPU(gpus[pk], min(fault.start_ms for fault in each), each[-1].reason)
        for pk, each in faults.items()
    ]


def is_broken(heard_ms: int | None, outages: list[Any]) -> bool:
    """Whether one of the outages that the last posting took lasted when the node was heard last."""
    return bool(_open_faults(heard_ms, outages))


def _posted_outages() -> QuerySet[Posted, Any]:
    """GPUs with outages in order: their ids, when their node was heard last, the outages."""
    rows = Posted.objects.exclude(outages=[]).filter(gpu__retired_ms=None, gpu__parent=None)
    in_order = rows.order_by("gpu__node__name", "gpu__index", "pk")
    return in_order.values_list("pk", "gpu__node__last_ms", "outages")


_of_fleet = written_once(_posted_outages)


def _open_faults(heard_ms: int | None, outages: list[Any]) -> list[Outage]:
    """Those that the node was in when it was heard last."""
    return [
        outage
        for outage in outages_of(outages)
        if not outage.is_drain and outage.start_ms <= (heard_ms or 0) < outage.end_ms
    ]
