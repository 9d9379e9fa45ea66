"""Lines to paste in a shell, on a node or where its scheduler is. Pure."""

from collections.abc import Collection
from dataclasses import dataclass
from shlex import quote

from fleetwatch.inventory.models import Node


@dataclass(frozen=True, slots=True)
class Command:
    """What it does, and the line."""

    label: str
    line: str


def of_node(node: Node, sources: Collection[str]) -> list[Command]:
    """To look at the node's GPUs and its agent; by the schedulers that are there to take it out of
    service and back.
    """
    name = quote(node.name)
    commands = [
        Command("GPUs and what runs on them", f"ssh {name} nvidia-smi"),
        Command("The agent's log", f"ssh {name} journalctl -u fleetwatch-agent -n 100 --no-pager"),
    ]
    if "slurm" in sources:
        why = "Reason=maintenance"
        commands += [
            Command("Drain it (Slurm)", f"scontrol update NodeName={name} State=DRAIN {why}"),
            Command("Back in service (Slurm)", f"scontrol update NodeName={name} State=RESUME"),
        ]
    if "kubernetes" in sources:
        commands += [
            Command("No new pods (Kubernetes)", f"kubectl cordon {name}"),
            Command("Pods again (Kubernetes)", f"kubectl uncordon {name}"),
        ]
    return commands
