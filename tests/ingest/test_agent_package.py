import hashlib
import io
import os
import re
import shutil
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
    shell = shutil.which("dash") or "sh"  # the strictest that hosts have
    return subprocess.run([shell, "-s", "--", *arguments], input=script, env=environment, capture_output=True, text=True, check=False)


def test_the_same_sources_give_the_same_file():
    first = agent_package.build()
    agent_package.build.cache_clear()

    assert agent_package.build() == first
    assert agent_package.checksum() == hashlib.sha256(first).hexdigest()


def test_folder_times_rights_and_hash_seed_of_the_build_do_not_matter(tmp_path):
    root = agent_package.ROOT
    files = [*(root / "agent").rglob("*.py"), *(root / "deploy/agent").rglob("*"), *(root / "fleetwatch").glob("*.py")]
    files += [root / "fleetwatch/ingest/__init__.py", *(root / "fleetwatch/ingest").glob("agent_*.py")]
    for path in (path for path in files if path.is_file()):
        copy = tmp_path / "elsewhere" / path.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        copy.write_bytes(path.read_bytes())
        copy.chmod(0o600)
        os.utime(copy, (1_000_000_000, 1_000_000_000))
    shutil.copy(root / "LICENSE", tmp_path / "elsewhere/LICENSE")

    def built(folder: Path, seed: str, mask: int) -> dict[str, bytes]:
        command = [sys.executable, "-m", "fleetwatch.ingest.agent_dist", str(tmp_path / seed)]
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONDONTWRITEBYTECODE": "1"}
        subprocess.run(command, cwd=folder, env=environment, umask=mask, check=True, capture_output=True, timeout=120)
        return {path.name: path.read_bytes() for path in (tmp_path / seed).iterdir()}

    here, elsewhere = built(root, "1", 0o022), built(tmp_path / "elsewhere", "2", 0o077)

    assert {name: hashlib.sha256(content).hexdigest() for name, content in here.items()} == {
        name: hashlib.sha256(content).hexdigest() for name, content in elsewhere.items()
    }
    assert here["fleetwatch-agent.pyz"] == agent_package.build()


def test_the_file_holds_the_agent_the_bindings_and_their_licences():
    archive = zipfile.ZipFile(io.BytesIO(agent_package.build()))

    names = archive.namelist()
    assert {"__main__.py", "agent/wire.py", "agent/daemon.py", "pynvml.py", "LICENSE", "NOTICE", "LICENSE.nvidia-ml-py"} <= set(names)
    assert not [name for name in names if name.startswith("fleetwatch")]
    assert b"Apache License" in archive.read("LICENSE")
    assert b"BSD 3-clause" in archive.read("NOTICE")
    licence = archive.read("LICENSE.nvidia-ml-py").decode()
    assert licence.startswith("Copyright (c) 2011-")
    assert "Redistribution and use in source and binary forms" in licence
    assert "#" not in licence


def test_the_file_runs_alone_far_from_the_sources(tmp_path):
    package = tmp_path / "fleetwatch-agent.pyz"
    package.write_bytes(agent_package.build())

    result = subprocess.run(
        [sys.executable, "-I", str(package), "once", "--json", "--source", "simulated:2xH100,seed=7"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip

    assert result.returncode == 0, result.stderr
    assert '"version"' in result.stdout


def test_a_python_that_is_too_old_hands_over_to_a_newer_one_beside_it(tmp_path):
    newer = tmp_path / "python3.11"
    newer.write_text('#!/bin/sh\necho "newer $*"\n')
    newer.chmod(0o755)
    old = f"import sys; sys.version_info = (3, 6, 8); sys.argv = ['agent.pyz', 'run']; exec({agent_package.MAIN.read_text()!r})"

    done = subprocess.run([sys.executable, "-c", old], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    alone = subprocess.run([sys.executable, "-c", old], env={"PATH": "/nowhere"}, capture_output=True, text=True, check=False)

    assert (done.stdout, done.returncode) == ("newer -I agent.pyz run\n", 0)
    assert (alone.stderr, alone.returncode) == ("fleetwatch-agent: Python 3.8 or newer is needed, this is 3.6\n", 2)


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
    assert (tmp_path / "etc/systemd/system/fleetwatch-agent.service.d/docker.conf").read_text() == "[Service]\nSupplementaryGroups=docker\n"
    assert "secret" not in unit
    assert str(tmp_path) not in unit
    assert "@" not in re.sub("SystemCallFilter=.*", "", unit)
    command = tmp_path / "usr/local/bin/fleetwatch-agent"
    assert command.read_text() == '#!/bin/sh\nexec /usr/bin/python3 -I /usr/local/lib/fleetwatch-agent/fleetwatch-agent.pyz "$@"\n'
    assert command.stat().st_mode & 0o777 == 0o755


def test_installing_again_keeps_settings_and_queue_and_brings_the_new_file(hub, tmp_path):
    _install(tmp_path, "--server", hub, "--token", "secret", "--node", "gpu-07", "--docker")
    settings = tmp_path / "etc/fleetwatch-agent/environment"
    settings.write_text(settings.read_text() + 'FLEETWATCH_FLUSH_S="60"\n')
    waiting = tmp_path / "var/lib/fleetwatch-agent/00000000000000000001.batch"
    waiting.parent.mkdir(parents=True)
    waiting.write_bytes(b"batch")
    package = tmp_path / "usr/local/lib/fleetwatch-agent/fleetwatch-agent.pyz"
    package.write_bytes(b"an old agent")

    result = _install(tmp_path)

    assert result.returncode == 0, result.stderr
    assert package.read_bytes() == agent_package.build()
    assert f"it reports to {hub}" in result.stdout
    assert sorted(settings.read_text().splitlines()) == [
        'FLEETWATCH_FLUSH_S="60"', 'FLEETWATCH_NODE="gpu-07"', f'FLEETWATCH_SERVER="{hub}"', 'FLEETWATCH_TOKEN="secret"',
    ]  # fmt: skip
    assert settings.stat().st_mode & 0o777 == 0o600
    assert waiting.read_bytes() == b"batch"
    assert (tmp_path / "etc/systemd/system/fleetwatch-agent.service.d/docker.conf").is_file()


def test_installing_again_with_another_token_changes_only_that(hub, tmp_path):
    _install(tmp_path, "--server", hub, "--token", "secret", "--node", "gpu-07")

    _install(tmp_path, "--token", "newer")

    assert sorted((tmp_path / "etc/fleetwatch-agent/environment").read_text().splitlines()) == [
        'FLEETWATCH_NODE="gpu-07"', f'FLEETWATCH_SERVER="{hub}"', 'FLEETWATCH_TOKEN="newer"',
    ]  # fmt: skip


@pytest.mark.parametrize("token", ["FLEETWATCH_TOKEN=secret", "FLEETWATCH_TOKEN_FILE=/run/token", 'FLEETWATCH_TOKEN_FILE="/t"'])
def test_installing_again_understands_settings_that_an_operator_wrote(hub, tmp_path, token):
    settings = tmp_path / "etc/fleetwatch-agent/environment"
    settings.parent.mkdir(parents=True)
    settings.write_text(f"FLEETWATCH_SERVER={hub}\n{token}\n")

    result = _install(tmp_path)

    assert result.returncode == 0, result.stderr
    assert token in settings.read_text().splitlines()


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
