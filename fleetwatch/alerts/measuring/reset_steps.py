"""How a GPU is reset: its node is taken out of service first, for a reset needs it unused."""

from collections.abc import Iterable
from dataclasses import dataclass

from fleetwatch.diagnosis.shell import Place, drain, word
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import SourceReport
from fleetwatch.notify.message import one_line

SCHEDULERS = ("slurm", "kubernetes")  # that take a node out of service by a command
AGAIN = "Have the GPU replaced if this comes back."


@dataclass(frozen=True, slots=True)
class Reset:
    """What to do in order, and the commands that these actions end with."""

    actions: tuple[str, ...]
    codes: tuple[str, ...]


def schedulers_of(node_ids: Iterable[int]) -> dict[int, str]:
    """Node id -> the scheduler that its agent told of; of nodes with one."""
    reports = SourceReport.objects.filter(node__in=list(node_ids), kind__in=SCHEDULERS)
    return dict(reports.order_by("kind").values_list("node_id", "kind"))


def reset_of(gpu: GPU, scheduler: str, *, reason: str) -> Reset:
    """Of the GPU; `reason` is kept by Slurm, `scheduler` "" where none is known."""
    index = word(gpu.uuid) if gpu.index is None else str(gpu.index)
    name = one_line(gpu.node.name, 60)
    draining = drain(Place(scheduler=scheduler, node=gpu.node.name), reason)
    reset = f"nvidia-smi --gpu-reset -i {index}"
    actions = (
        f"Fix: take node {name} out of service, so that no new job starts there"
        + (f": {draining}" if draining else "."),
        f"Fix: once nothing runs on the GPU, reset it on {name}: {reset}",
        AGAIN,
    )
    return Reset(actions, tuple(code for code in (draining, reset) if code))
