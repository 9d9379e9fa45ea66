"""The door to Kubernetes' books: whether there is a kubelet here.

The rest is loaded only where there is one.
"""

import importlib
import os

from agent.readings import Scheduler
from agent.workloads.detect import Place

SOCKET = "/var/lib/kubelet/pod-resources/kubelet.sock"
CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"


def is_here(place: Place) -> bool:
    """Whether a kubelet is at work on this node."""
    return os.path.exists(SOCKET) or os.path.exists(CHECKPOINT)


def open_scheduler(place: Place) -> Scheduler:
    """The books of this node's kubelet."""
    books = importlib.import_module("agent.workloads.kubernetes_books")
    api = importlib.import_module("agent.workloads.kubernetes_api").from_environment(os.environ)
    scheduler: Scheduler = books.Kubernetes(
        node=place.node, cluster=place.cluster or "default", paths=books.Paths(), api=api
    )
    return scheduler
