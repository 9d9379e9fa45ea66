import hashlib
import io
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from fleetwatch.ingest import agent_package


class _Hub(BaseHTTPRequestHandler):
    """GET /agent/fleetwatch-agent.pyz, as the hub hands it out."""

    body = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[str]:
    _Hub.body = agent_package.build()
    with ThreadingHTTPServer(("127.0.0.1", 0), _Hub) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def _install(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    script = agent_package.install_script()
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DESTDIR": str(folder)}
    return subprocess.run(["sh", "-s", "--", *arguments], input=script, env=environment, capture_output=True, text=True, check=False)


def test_the_same_sources_give_the_same_file():
    first = agent_package.build()
    agent_package.build.cache_clear()

    assert agent_package.build() == first
    assert agent_package.checksum() == hashlib.sha256(first).hexdigest()


def test_the_file_holds_the_agent_the_bindings_and_their_licences():
    archive = zipfile.ZipFile(io.BytesIO(agent_package.build()))

    names = archive.namelist()
    assert {"__main__.py", "agent/wire.py", "agent/sources/nvml.py", "pynvml.py", "LICENSE", "NOTICE"} <= set(names)
    assert not [name for name in names if name.startswith("fleetwatch")]
    assert b"BSD 3-clause" in archive.read("NOTICE")


def test_the_file_runs_alone_far_from_the_sources(tmp_path):
    package = tmp_path / "fleetwatch-agent.pyz"
    package.write_bytes(agent_package.build())

    result = subprocess.run(
        [sys.executable, "-I", str(package), "once", "--json", "--source", "simulated:2xH100,seed=7"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip

    assert result.returncode == 0, result.stderr
    assert '"version"' in result.stdout


def test_installing_puts_file_token_and_unit_in_their_places(hub, tmp_path):
    result = _install(tmp_path, "--server", hub + "/", "--token", "secret", "--node", "gpu-07", "--labels", "rack=7", "--docker")

    assert result.returncode == 0, result.stderr
    package = tmp_path / "usr/local/lib/fleetwatch-agent/fleetwatch-agent.pyz"
    assert package.read_bytes() == agent_package.build()
    assert package.stat().st_mode & 0o777 == 0o755
    settings = tmp_path / "etc/fleetwatch-agent/environment"
    assert settings.read_text() == (
        f'FLEETWATCH_SERVER="{hub}"\nFLEETWATCH_TOKEN="secret"\nFLEETWATCH_NODE="gpu-07"\nFLEETWATCH_LABELS="rack=7"\n'
    )
    assert settings.stat().st_mode & 0o777 == 0o600
    unit = (tmp_path / "etc/systemd/system/fleetwatch-agent.service").read_text()
    assert "/usr/local/lib/fleetwatch-agent/fleetwatch-agent.pyz run\n" in unit
    assert "EnvironmentFile=/etc/fleetwatch-agent/environment\n" in unit
    assert "SupplementaryGroups=docker\n" in unit
    assert "secret" not in unit
    assert str(tmp_path) not in unit


def test_uninstalling_leaves_nothing_behind(hub, tmp_path):
    _install(tmp_path, "--server", hub, "--token", "secret")
    (tmp_path / "var/lib/fleetwatch-agent").mkdir(parents=True)

    result = _install(tmp_path, "--uninstall")

    assert result.returncode == 0, result.stderr
    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == []


def test_a_file_with_another_checksum_is_not_installed(hub, tmp_path):
    _Hub.body = b"something else"

    result = _install(tmp_path, "--server", hub, "--token", "secret")

    assert result.returncode == 1
    assert "nothing was installed" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_checksum_of_the_page_can_be_given(hub, tmp_path):
    result = _install(tmp_path, "--server", hub, "--token", "secret", "--sha256", "0" * 64)

    assert result.returncode == 1
    assert f"expected {'0' * 64}" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--token", "t"], "--server must be"),
        (["--server", "http://hub"], "--token is missing"),
        (["--server"], "--server needs a value"),
        (["--server", "http://hub", "--token", 'a"b'], "holds a character"),
        (["--sever", "http://hub"], "unknown argument --sever"),
    ],
)
def test_a_wrong_argument_is_one_clear_line_and_exit_2(tmp_path, arguments, sentence):
    result = _install(tmp_path, *arguments)

    assert result.returncode == 2
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_make_agent_writes_a_file_that_runs(tmp_path: Path) -> None:
    agent_package.main(str(tmp_path / "dist"))

    said = subprocess.run([str(tmp_path / "dist/fleetwatch-agent.pyz"), "--version"], capture_output=True, text=True, check=True)
    assert said.stdout.startswith("fleetwatch-agent ")
