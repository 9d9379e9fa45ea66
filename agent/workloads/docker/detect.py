"""The door to Docker and Podman: whether an engine is here."""

import importlib

from agent.readings import Scheduler
from agent.workloads.docker.places import sockets
from agent.workloads.scheduler_door import Place


def is_here(place: Place) -> bool:
    """Whether an engine has a socket on this host."""
    return bool(sockets())


def open_scheduler(place: Place) -> Scheduler:
    """The books of this host's engines."""
    client = importlib.import_module("agent.workloads.docker.client")
    scheduler: Scheduler = client.Docker(node=place.node, all_counts=place.docker_all)
    return scheduler
