"""Which GPUs can't work now, by the outages that the last posting took."""

from dataclasses import dataclass

from fleetwatch.inventory.models import GPU, Node
from fleetwatch.ledger.judgement_inputs import posted_outages
from fleetwatch.ledger.models import Posted


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
    rows = Posted.objects.exclude(outages=[]).filter(gpu__retired_ms=None, gpu__parent=None)
    if node is not None:
        rows = rows.filter(gpu__node=node)
    in_order = rows.select_related("gpu__node").order_by("gpu__node__name", "gpu__index", "pk")
    return [broken for row in in_order if (broken := _broken(row))]


def _broken(row: Posted) -> BrokenGPU | None:
    heard_ms = row.gpu.node.last_ms or 0
    faults = [
        outage
        for outage in posted_outages(row)
        if not outage.is_drain and outage.start_ms <= heard_ms < outage.end_ms
    ]
    if not faults:
        return None
    return BrokenGPU(row.gpu, min(fault.start_ms for fault in faults), faults[-1].reason)
