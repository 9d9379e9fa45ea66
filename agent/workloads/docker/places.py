"""Where the sockets of Docker and Podman lie on this host."""

import glob
import os
import re
from dataclasses import dataclass
from typing import List, Optional

# (kind, where its socket may be); of users' own engines there may be many.
SOCKETS = (
    ("docker", "/var/run/docker.sock"),
    ("docker", "/run/user/*/docker.sock"),
    ("podman", "/run/podman/podman.sock"),
    ("podman", "/run/user/*/podman/podman.sock"),
)
MAX_SOCKETS = 64
_OF_A_USER = re.compile(r"/user/(\d{1,10})/")


@dataclass(frozen=True)
class Socket:
    """An engine's API."""

    kind: str
    path: str

    @property
    def user_id(self) -> Optional[int]:
        """Whose engine it is, where it is a user's own; None for root's."""
        match = _OF_A_USER.search(self.path)
        return None if match is None else int(match.group(1))


def sockets(root: str = "/") -> List[Socket]:
    """The sockets that are here now."""
    here = [
        Socket(kind, path)
        for kind, pattern in SOCKETS
        for path in sorted(glob.glob(os.path.join(root, pattern.lstrip("/"))))
    ]
    return here[:MAX_SOCKETS]
