import json
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from agent.workloads.docker import Container, Docker, parse

HEX = "e2173b9478a6ae55e237d4d74f8bbb753f0817192b5081334dc78476296b7dfb"
NOW = 1_794_000_100_000


def _answer(**labels: str) -> dict[str, Any]:
    return {
        "Id": HEX,
        "Name": "/llama-train",
        "RestartCount": 2,
        "State": {"Running": True, "Pid": 1234, "StartedAt": "2026-11-06T05:48:53.266176036Z"},
        "HostConfig": None,
        "Config": {"User": "", "Env": ["AWS_SECRET_ACCESS_KEY=hunter2"], "Cmd": ["--token=hunter2"], "Labels": labels or None},
    }


class _Daemon(BaseHTTPRequestHandler):
    """GET /containers/{id}/json, as a Docker daemon answers it."""

    containers: dict[str, Any] = {}
    asked: list[str] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        found = self.containers.get(self.path.split("/")[2])
        body = json.dumps(found or {"message": "No such container"}).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "unix"

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[str]:
    _Daemon.containers, _Daemon.asked = {}, []
    path = str(tmp_path / "docker.sock")
    with socketserver.UnixStreamServer(path, _Daemon) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield path
        server.shutdown()
        thread.join()


def test_only_listed_labels_leave_the_host():
    container = parse(HEX, _answer(**{"fleetwatch.user": "ann", "com.docker.compose.service": "train", "db.password": "hunter2"}))

    assert container.labels == {"fleetwatch.user": "ann", "com.docker.compose.service": "train"}
    assert (container.name, container.user, container.restarts) == ("llama-train", "ann", 2)
    assert "hunter2" not in repr(container)


def test_an_answer_with_nulls_is_a_container_too():
    assert parse(HEX, {"Id": HEX, "Name": None, "Config": None}) == Container(HEX, "e2173b9478a6")


def test_the_daemon_is_asked_once_in_ten_minutes(daemon):
    _Daemon.containers = {HEX: _answer()}
    docker = Docker(daemon)

    names = [docker.container(HEX, now_ms=NOW + at).name for at in (0, 599_999, 600_000)]

    assert names == ["llama-train"] * 3
    assert _Daemon.asked == [f"/containers/{HEX}/json"] * 2


def test_a_daemon_that_is_away_is_asked_again_after_a_minute(daemon):
    docker = Docker(daemon)

    unknown = docker.container(HEX, now_ms=NOW)
    _Daemon.containers = {HEX: _answer()}

    assert unknown is None
    assert docker.container(HEX, now_ms=NOW + 59_999) is None
    assert docker.container(HEX, now_ms=NOW + 60_000).name == "llama-train"


def test_no_socket_is_no_answer(tmp_path):
    assert Docker(str(tmp_path / "none.sock")).container(HEX, now_ms=NOW) is None
