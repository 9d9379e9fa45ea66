"""The door to the books of Docker and Podman: which of their sockets are here.

The rest is loaded only where there are some.
"""

import glob
import importlib
import os
from dataclasses import dataclass
from typing import List

from agent.readings import Scheduler
from agent.workloads.detect import Place

# (kind, where its socket may be); of users' own engines there may be many.
SOCKETS = (
    ("docker", "/var/run/docker.sock"),
    ("docker", "/run/user/*/docker.sock"),
    ("podman", "/run/podman/podman.sock"),
    ("podman", "/run/user/*/podman/podman.sock"),
)
MAX_SOCKETS = 64


@dataclass(frozen=True)
class Socket:
    """An engine's API."""

    kind: str
    path: str


def sockets(root: str = "/") -> List[Socket]:
    """The sockets that are here now."""
    found = [
        Socket(kind, path)
        for kind, pattern in SOCKETS
        for path in sorted(glob.glob(os.path.join(root, pattern.lstrip("/"))))
    ]
    return found[:MAX_SOCKETS]


def is_here(place: Place) -> bool:
    """Whether an engine has a socket on this host."""
    return bool(sockets())


def open_scheduler(place: Place) -> Scheduler:
    """The books of this host's engines."""
    books = importlib.import_module("agent.workloads.docker_books")
    scheduler: Scheduler = books.Docker(node=place.node, all_counts=place.docker_all)
    return scheduler
