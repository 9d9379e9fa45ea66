"""The door to Kubernetes: whether there is a kubelet here."""

import importlib
import os

from agent.readings import Scheduler
from agent.workloads.kubernetes.places import CHECKPOINT, SOCKET, Paths
from agent.workloads.scheduler_door import Place


def is_here(place: Place) -> bool:
    """Whether a kubelet is at work on this node."""
    return os.path.exists(SOCKET) or os.path.exists(CHECKPOINT)


def open_scheduler(place: Place) -> Scheduler:
    """The books of this node's kubelet."""
    client = importlib.import_module("agent.workloads.kubernetes.client")
    api_server = importlib.import_module("agent.workloads.kubernetes.api_server")
    scheduler: Scheduler = client.Kubernetes(
        node=place.node,
        cluster=place.cluster or "default",
        paths=Paths(),
        api=api_server.from_environment(os.environ),
    )
    return scheduler
