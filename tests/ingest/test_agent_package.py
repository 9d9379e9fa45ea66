import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from fleetwatch.ingest import agent_package


class _Hub(BaseHTTPRequestHandler):
    """GET /agent/fleetwatch-agent.pyz and /agent/install.sh, as the hub hands them out; meanwhile
    `watch` is called.
    """

    body = b""
    watch: Callable[[], None] | None = None

    def do_GET(self) -> None:
        if _Hub.watch is not None:
            _Hub.watch()
        body = agent_package.install_script().encode() if self.path.endswith(".sh") else self.body
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[str]:
    _Hub.body, _Hub.watch = agent_package.build(), None
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
    return subprocess.run(
        [shell, "-s", "--", *arguments],
        input=script,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_same_sources_give_the_same_file():
    first = agent_package.build()
    agent_package.build.cache_clear()

    assert agent_package.build() == first
    assert agent_package.checksum() == hashlib.sha256(first).hexdigest()


def test_folder_times_rights_and_hash_seed_of_the_build_do_not_matter(tmp_path):
    root = agent_package.ROOT
    files = [
        *(root / "agent").rglob("*.py"),
        *(root / "deploy/agent").rglob("*"),
        *(root / "fleetwatch").glob("*.py"),
        *(root / "release").glob("*.py"),
        root / "fleetwatch/ingest/__init__.py",
        root / "fleetwatch/ingest/agent_package.py",
        *(root / "cli").glob("*.py"),
        *((root / "fleetwatch/api" / name) for name in ("__init__.py", "cli_package.py")),
    ]
    for path in (path for path in files if path.is_file()):
        copy = tmp_path / "elsewhere" / path.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        copy.write_bytes(path.read_bytes())
        copy.chmod(0o600)
        os.utime(copy, (1_000_000_000, 1_000_000_000))
    shutil.copy(root / "LICENSE", tmp_path / "elsewhere/LICENSE")

    def built(folder: Path, seed: str, mask: int) -> dict[str, bytes]:
        command = [sys.executable, "-m", "release.agent_dist", str(tmp_path / seed)]
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONDONTWRITEBYTECODE": "1"}
        subprocess.run(
            command,
            cwd=folder,
            env=environment,
            umask=mask,
            check=True,
            capture_output=True,
            timeout=120,
        )
        return {path.name: path.read_bytes() for path in (tmp_path / seed).iterdir()}

    here, elsewhere = built(root, "1", 0o022), built(tmp_path / "elsewhere", "2", 0o077)

    assert {name: hashlib.sha256(content).hexdigest() for name, content in here.items()} == {
        name: hashlib.sha256(content).hexdigest() for name, content in elsewhere.items()
    }
    assert here["fleetwatch-agent.pyz"] == agent_package.build()


def test_the_file_holds_the_agent_the_bindings_and_their_licences():
    archive = zipfile.ZipFile(io.BytesIO(agent_package.build()))

    names = archive.namelist()
    assert {
        "__main__.py",
        "agent/wire.py",
        "agent/daemon.py",
        "pynvml.py",
        "LICENSE",
        "NOTICE",
        "LICENSE.nvidia-ml-py",
    } <= set(names)
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
        [sys.executable, "-I", str(package), "once", "--json", "--source",
        "simulated:2xH100,seed=7"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip

    assert result.returncode == 0, result.stderr
    assert '"version"' in result.stdout


def test_a_python_that_is_too_old_hands_over_to_a_newer_one_beside_it(tmp_path):
    newer = tmp_path / "python3.11"
    newer.write_text('#!/bin/sh\necho "newer $*"\n')
    newer.chmod(0o755)
    old = (
        "import sys; sys.version_info = (3, 6, 8); sys.argv = ['agent.pyz', 'run'];"
        f" exec({agent_package.MAIN.read_text()!r})"
    )

    done = subprocess.run(
        [sys.executable, "-c", old],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    alone = subprocess.run(
        [sys.executable, "-c", old],
        env={"PATH": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.stdout, done.returncode) == ("newer -I agent.pyz run\n", 0)
    assert (alone.stderr, alone.returncode) == (
        "fleetwatch-agent: Python 3.8 or newer is needed, this is 3.6\n",
        2,
    )


def test_installing_puts_file_token_and_unit_in_their_places(hub, tmp_path):
    result = _install(
        tmp_path,
        "--server",
        hub + "/",
        "--token",
        "secret",
        "--node",
        "gpu-07",
        "--labels",
        "rack=7",
        "--docker",
    )

    assert result.returncode == 0, result.stderr
    package = tmp_path / "usr/local/lib/fleetwatch-agent/fleetwatch-agent.pyz"
    assert package.read_bytes() == agent_package.build()
    assert package.stat().st_mode & 0o777 == 0o755
    settings = tmp_path / "etc/fleetwatch-agent/environment"
    assert (
        settings.read_text()
        == f'FLEETWATCH_SERVER="{hub}"\nFLEETWATCH_TOKEN="secret"\nFLEETWATCH_NODE="gpu-07"\nFLEETWATCH_LABELS="rack=7"\n'
    )
    assert settings.stat().st_mode & 0o777 == 0o600
    unit = (tmp_path / "etc/systemd/system/fleetwatch-agent.service").read_text()
    assert "/usr/local/lib/fleetwatch-agent/fleetwatch-agent.pyz run\n" in unit
    assert (
        "Environment=FLEETWATCH_TOKEN_FILE=/etc/fleetwatch-agent/token\nEnvironmentFile=/etc/fleetwatch-agent/environment\n"
        in unit
    )
    assert (
        tmp_path / "etc/systemd/system/fleetwatch-agent.service.d/docker.conf"
    ).read_text() == "[Service]\nSupplementaryGroups=docker\n"
    assert "secret" not in unit
    assert str(tmp_path) not in unit
    assert "@" not in re.sub("SystemCallFilter=.*", "", unit)
    command = tmp_path / "usr/local/bin/fleetwatch-agent"
    assert (
        command.read_text() == "#!/bin/sh\nexec /usr/bin/python3 -I"
        ' /usr/local/lib/fleetwatch-agent/fleetwatch-agent.pyz "$@"\n'
    )
    assert command.stat().st_mode & 0o777 == 0o755


COMMANDS = (
    "cat",
    "chmod",
    "curl",
    "dirname",
    "grep",
    "install",
    "mkdir",
    "mktemp",
    "mv",
    "rm",
    "sed",
)


def _recorded(folder: Path) -> dict[str, str]:
    """An environment in which each command that is started, sudo too, writes its arguments to
    folder/arguments and goes on.
    """
    (folder / "bin").mkdir()
    for name in COMMANDS:
        real = shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")
        (folder / "bin" / name).write_text(
            f'#!/bin/sh\necho "{name} $@" >> {folder}/arguments\nexec {real} "$@"\n'
        )
    (folder / "bin/sudo").write_text(
        f'#!/bin/sh\necho "sudo $@" >> {folder}/arguments\nexec "$@"\n'
    )
    for path in (folder / "bin").iterdir():
        path.chmod(0o755)
    return {"PATH": f"{folder}/bin:/usr/sbin:/usr/bin:/sbin:/bin", "DESTDIR": str(folder / "root")}


def _processes(what: str) -> str:
    """The command lines or environments (cmdline, environ) of all processes of this machine."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            found.append(
                (entry / what).read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            )
    return "\n".join(found)


@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_the_install_line_of_the_page_shows_its_token_to_no_other_process(hub, tmp_path, shell):
    seen = []
    _Hub.watch = lambda: seen.append(_processes("cmdline") + _processes("environ"))

    # a shell that reads the line from its input, as the one of a person at a terminal does
    done = subprocess.run(
        [shell],
        input=agent_package.install_command(hub, "fw_hush-hush"),
        env=_recorded(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    settings = (tmp_path / "root/etc/fleetwatch-agent/environment").read_text()
    assert settings == f'FLEETWATCH_SERVER="{hub}"\nFLEETWATCH_TOKEN="fw_hush-hush"\n'
    started = (tmp_path / "arguments").read_text()
    assert f"sudo sh -s -- --server {hub}\n" in started
    assert "curl -fsSL --retry 3" in started
    assert len(seen) == 2  # the script, the agent
    assert f"sh -s -- --server {hub}" in seen[1]
    assert "hush-hush" not in started + "".join(seen) + done.stdout + done.stderr


def test_a_token_comes_from_a_file_or_a_pipe(hub, tmp_path):
    (tmp_path / "install.sh").write_text(agent_package.install_script())
    (tmp_path / "token").write_text("fw_from-file\n")
    environment = _recorded(tmp_path)
    command = ["sh", str(tmp_path / "install.sh"), "--server", hub, "--token-file"]
    settings = tmp_path / "root/etc/fleetwatch-agent/environment"

    subprocess.run(
        [*command, str(tmp_path / "token")], env=environment, check=True, capture_output=True
    )
    from_file = settings.read_text()
    subprocess.run(
        [*command, "/dev/stdin"],
        input=b"fw_from-pipe",
        env=environment,
        check=True,
        capture_output=True,
    )

    assert 'FLEETWATCH_TOKEN="fw_from-file"\n' in from_file
    assert 'FLEETWATCH_TOKEN="fw_from-pipe"\n' in settings.read_text()
    assert "fw_from" not in (tmp_path / "arguments").read_text()


@pytest.mark.parametrize("content", [None, "", "\n"])
def test_a_token_file_without_a_token_is_one_clear_line(hub, tmp_path, content):
    if content is not None:
        (tmp_path / "token").write_text(content)

    result = _install(tmp_path / "root", "--server", hub, "--token-file", str(tmp_path / "token"))

    assert result.returncode == 2
    assert (
        result.stderr
        == f"fleetwatch-agent: --token-file {tmp_path}/token can't be read, or is empty\n"
    )


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
        'FLEETWATCH_FLUSH_S="60"', 'FLEETWATCH_NODE="gpu-07"', f'FLEETWATCH_SERVER="{hub}"',
        'FLEETWATCH_TOKEN="secret"',
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


@pytest.mark.parametrize(
    "token",
    ["FLEETWATCH_TOKEN=secret", "FLEETWATCH_TOKEN_FILE=/run/token", 'FLEETWATCH_TOKEN_FILE="/t"'],
)
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
