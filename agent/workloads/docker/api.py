"""Two calls of the Docker API on a unix socket (Podman answers the same ones):
https://docs.docker.com/reference/api/engine/
"""

import http.client
import json
import socket
from typing import Any, Dict, List

TIMEOUT_S = 2.0
MAX_BYTES = 4 * 1024 * 1024


class EngineError(Exception):
    """The engine can't be asked: no socket, no permission, no answer."""


def containers(path: str) -> List[Dict[str, Any]]:
    """The running containers, in short. Raises EngineError."""
    answer = _get(path, "/containers/json")
    if not isinstance(answer, list):
        raise EngineError("%s: no list of containers" % path)
    return [item for item in answer if isinstance(item, dict)]


def container(path: str, identity: str) -> Dict[str, Any]:
    """All that the engine knows of one; {} of one that is gone. Raises EngineError."""
    answer = _get(path, "/containers/%s/json" % identity)
    return answer if isinstance(answer, dict) else {}


def _get(path: str, what: str) -> Any:
    connection = _UnixConnection(path)
    try:
        connection.request("GET", what)
        response = connection.getresponse()
        body = response.read(MAX_BYTES + 1)
        if response.status == 404:
            return None
        if response.status != 200 or len(body) > MAX_BYTES:
            raise EngineError("%s: status %d, %d bytes" % (path, response.status, len(body)))
        return json.loads(body.decode("utf-8"))
    except OSError as error:
        raise EngineError("%s: %s" % (path, error.strerror or error)) from error
    except (http.client.HTTPException, ValueError, RecursionError) as error:
        raise EngineError(
            "%s: not an answer of Docker's API (%s)" % (path, type(error).__name__)
        ) from error
    finally:
        connection.close()


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("docker", timeout=TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(TIMEOUT_S)
        self.sock.connect(self._path)
