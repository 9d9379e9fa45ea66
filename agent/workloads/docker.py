"""Names and labels of containers, by the Docker API on its unix socket (Podman answers the same calls)."""

import http.client
import json
import socket
from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Optional, Tuple

SOCKET = "/var/run/docker.sock"
TIMEOUT_S = 2.0
KEEP_MS = 600_000  # what a container is called changes rarely
RETRY_MS = 60_000  # and a socket that did not answer is left alone for a while
MAX_BYTES = 4 * 1024 * 1024

# Only these labels leave the host: others, and the environment, hold secrets.
LABELS = (
    "fleetwatch.user",
    "fleetwatch.account",
    "fleetwatch.name",
    "fleetwatch.kind",
    "com.docker.compose.project",
    "com.docker.compose.service",
    "org.opencontainers.image.title",
    "org.opencontainers.image.version",
)


@dataclass(frozen=True)
class Container:
    """What people know a container by."""

    id: str
    name: str
    user: str = ""
    account: str = ""
    kind: str = "batch"
    restarts: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)


class Docker:
    """The daemon behind a socket; asked at most once per container and ten minutes."""

    def __init__(self, path: str = SOCKET) -> None:
        self._path = path
        self._known: Dict[str, Tuple[int, Optional[Container]]] = {}  # id -> (asked again at, answer)

    def container(self, container_id: str, *, now_ms: int) -> Optional[Container]:
        """The container; None when the daemon can't be asked (no socket, no permission) or does not know it."""
        again_ms, known = self._known.get(container_id, (0, None))
        if now_ms < again_ms:
            return known
        answer = self._inspect(container_id)
        found = None if answer is None else parse(container_id, answer)
        self._known = {name: entry for name, entry in self._known.items() if entry[0] > now_ms}
        self._known[container_id] = (now_ms + (KEEP_MS if found else RETRY_MS), found or known)
        return found or known

    def _inspect(self, container_id: str) -> Optional[Dict[str, Any]]:
        connection = _UnixConnection(self._path)
        try:
            connection.request("GET", "/containers/%s/json" % container_id)
            response = connection.getresponse()
            body = response.read(MAX_BYTES)
            answer = json.loads(body) if response.status == 200 else None
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            connection.close()
        return answer if isinstance(answer, dict) else None


def parse(container_id: str, answer: Mapping[str, Any]) -> Container:
    """The container in the answer of /containers/{id}/json; any part of it may be null."""
    config = answer.get("Config") or {}
    given = config.get("Labels") or {}
    labels = {name: str(given[name]) for name in LABELS if given.get(name)}
    return Container(
        id=container_id,
        name=labels.get("fleetwatch.name") or str(answer.get("Name") or "").lstrip("/") or container_id[:12],
        user=labels.get("fleetwatch.user", ""),
        account=labels.get("fleetwatch.account", ""),
        kind=labels.get("fleetwatch.kind", "batch"),
        restarts=int(answer.get("RestartCount") or 0),
        labels=labels,
    )


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("docker", timeout=TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(TIMEOUT_S)
        self.sock.connect(self._path)
