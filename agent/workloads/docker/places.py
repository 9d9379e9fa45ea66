"""Where the sockets of Docker and Podman lie on this host."""

import glob
import os
from dataclasses import dataclass
from typing import List

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
    here = [
        Socket(kind, path)
        for kind, pattern in SOCKETS
        for path in sorted(glob.glob(os.path.join(root, pattern.lstrip("/"))))
    ]
    return here[:MAX_SOCKETS]
