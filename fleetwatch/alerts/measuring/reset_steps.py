"""How a GPU is reset: its node is taken out of service first, for a reset needs it unused. One that
its driver lost no reset reaches: its node is started again.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from fleetwatch.diagnosis.causes.gpu_fault import AGAIN, IF_AGAIN
from fleetwatch.diagnosis.shell import Place, drain, word
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import SourceReport
from fleetwatch.notify.message import one_line

SCHEDULERS = ("slurm", "kubernetes")  # that take a node out of service by a command


@dataclass(frozen=True, slots=True)
class Reset:
    """What to do in order, and the commands that these actions end with."""

    actions: tuple[str, ...]
    codes: tuple[str, ...]


def schedulers_of(node_ids: Iterable[int]) -> dict[int, str]:
    """Node id -> the scheduler that its agent told of; of nodes with one."""
    reports = SourceReport.objects.filter(node__in=list(node_ids), kind__in=SCHEDULERS)
    return dict(reports.order_by("kind").values_list("node_id", "kind"))


def reset_of(gpu: GPU, scheduler: str, *, reason: str, often: str = "") -> Reset:
    """Of the GPU; `reason` is kept by Slurm, `scheduler` "" where none is known; `often` says that
    it was so before ("": not).
    """
    index = word(gpu.uuid) if gpu.index is None else str(gpu.index)
    name = one_line(gpu.node.name, 60)
    reset = f"nvidia-smi --gpu-reset -i {index}"
    text = f"Fix: once nothing runs on the GPU, reset it on {name}: "
    return _steps(gpu, scheduler, reason, (text, reset), often)


def restart_of(gpu: GPU, scheduler: str, *, reason: str, often: str = "") -> Reset:
    """Of the node of a GPU that its driver lost; `often` says that it was so before ("": not)."""
    name = one_line(gpu.node.name, 60)
    text = (
        "Fix: once no other job runs there, reboot it, or power-cycle it where that doesn't bring"
        f" the GPU back (a GPU reset can't reach it); on {name}: "
    )
    return _steps(gpu, scheduler, reason, (text, "sudo reboot"), often)


def replaced(often: str) -> str:
    """When the GPU is to be replaced."""
    return f"Fix: {AGAIN.format('the GPU', often)}" if often else IF_AGAIN


def _steps(gpu: GPU, scheduler: str, reason: str, step: tuple[str, str], often: str) -> Reset:
    """The node out of service, then the step of that text and code."""
    text, code = step
    name = one_line(gpu.node.name, 60)
    draining = drain(Place(scheduler=scheduler, node=gpu.node.name), reason)
    actions = (
        f"Fix: take node {name} out of service, so that no new job starts there"
        + (f": {draining}" if draining else "."),
        f"{text}{code}",
        replaced(often),
    )
    return Reset(actions, tuple(each for each in (draining, code) if each))
