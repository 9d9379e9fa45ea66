"""What to type to act on a job or a node. Pure.

Names come from hosts and schedulers and are hostile: in a command each is one quoted word.
"""

import shlex
from dataclasses import dataclass

DELETE_POD = "kubectl delete pod"


@dataclass(frozen=True, slots=True)
class Place:
    """Who holds the GPU and where: what a command needs. Empty = not known."""

    scheduler: str = ""
    job_id: str = ""  # that ends it alone
    name: str = ""  # Kubernetes: namespace/pod
    node: str = ""  # of the GPU that was looked at
    pids: tuple[int, ...] = ()  # of the job, there
    # the job ended: nothing is left to end; of orphaned GPUs, they are free or a job's
    is_over: bool = False
    is_service: bool = False  # that rests is scaled, not ended
    # one of its GPUs works, or nobody knows that it does not: nothing is ended
    may_work: bool = False


NOWHERE = Place()
LOOK_UPS = ("scontrol show", "kubectl describe", "nvidia-smi -q", "nvidia-smi --query", "squeue")


def looks_up(typed: str) -> bool:
    """Whether it only shows something, and changes nothing."""
    return typed.startswith(LOOK_UPS)


def nothing(_: Place) -> str:
    """Of what no command acts on."""
    return ""


def drain(place: Place, reason: str) -> str:
    """The command that takes the node out of service; "" where nobody knows one."""
    if place.node and place.scheduler == "slurm":
        node = word(place.node)
        return f"scontrol update nodename={node} state=drain reason={word(reason)}"
    if place.node and place.scheduler == "kubernetes":
        return f"kubectl cordon -- {word(place.node)}"
    return ""


def ending(place: Place) -> str:
    """The command that ends the job; "" where nobody knows one."""
    if place.scheduler == "slurm" and place.job_id:
        return f"scancel {word(place.job_id)}"
    if place.scheduler == "kubernetes" and "/" in place.name:
        namespace, _, pod = place.name.partition("/")
        return f"{DELETE_POD} -n {word(namespace)} -- {word(pod)}"
    if place.scheduler in ("docker", "podman", "containerd") and place.job_id:
        command = "podman" if place.scheduler == "podman" else "docker"
        return f"{command} stop -- {word(place.job_id)}"
    if place.pids and place.node:
        return f"ssh -- {word(place.node)} kill {' '.join(str(pid) for pid in place.pids)}"
    return ""


def word(name: str) -> str:
    """The name as one word of a shell: line breaks and control characters gone, and never an
    option.
    """
    clean = "".join(char for char in name if char.isprintable())
    return shlex.quote(f"./{clean}" if clean.startswith("-") else clean)
