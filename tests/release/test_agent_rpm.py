"""The RPM, installed, upgraded and removed by the real rpm below a folder, with nobody to answer a
question.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from fleetwatch.ingest import agent_package
from release import agent_rpm, agent_tree

pytestmark = pytest.mark.skipif(
    shutil.which("rpmbuild") is None or os.geteuid() != 0,
    reason="rpmbuild is not installed, or this is not root, whom rpm --root needs",
)
SETTINGS = "etc/fleetwatch-agent/environment"
TOLD = "FLEETWATCH_SERVER=https://hub.example.org\nFLEETWATCH_TOKEN=secret\n"


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    return _packed(tmp_path_factory.mktemp("rpm"), agent_package.version())


def _packed(folder: Path, version: str) -> Path:
    path = folder / agent_rpm.file_name(version)
    path.write_bytes(agent_rpm.build(version))
    return path


def _rpm(*arguments: "str | Path") -> str:
    command = ["rpm", *map(str, arguments)]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _change(host: Path, *arguments: "str | Path") -> None:
    """A change of a host that is a folder: without a shell for scriptlets, and without a Python."""
    _rpm("--root", host, "--nodeps", "--noscripts", *arguments)


def test_the_package_holds_file_unit_page_licences_and_settings_for_root_alone(package):
    listed = _rpm(
        "-qp",
        "--qf",
        "[%{FILENAMES} %{FILEMODES:perms} %{FILEUSERNAME}:%{FILEGROUPNAME} %{FILEFLAGS:fflags}\n]",
        package,
    )

    files = {line.split()[0]: line.split()[1:] for line in listed.splitlines()}
    assert files["/etc/fleetwatch-agent"] == ["drwx------", "root:root"]
    # a configuration, not replaced
    assert files["/etc/fleetwatch-agent/environment"] == ["-rw-------", "root:root", "cn"]
    assert files["/usr/lib/fleetwatch-agent/fleetwatch-agent.pyz"] == ["-rwxr-xr-x", "root:root"]
    assert files["/usr/lib/systemd/system/fleetwatch-agent.service"] == ["-rw-r--r--", "root:root"]
    assert {"/usr/bin/fleetwatch-agent", "/usr/share/man/man1/fleetwatch-agent.1.gz"} <= set(files)
    assert {
        "/usr/share/licenses/fleetwatch-agent/LICENSE",
        "/usr/share/licenses/fleetwatch-agent/LICENSE.nvidia-ml-py",
    } <= set(files)
    assert {facts[1] for facts in files.values()} == {"root:root"}


def test_it_asks_for_a_python_and_for_nothing_that_rpmbuild_found_by_itself(package):
    required = _rpm("-qp", "--requires", package).splitlines()

    own = [line for line in required if not line.startswith(("rpmlib(", "/bin/sh"))]
    assert own == [
        "(python3 >= 3.8 or python3.12 or python3.11 or python311 or python39 or python38)"
    ]


def test_it_tells_nothing_of_the_machine_that_built_it(package):
    about = _rpm("-qp", "--qf", "%{VERSION} %{BUILDTIME} %{BUILDHOST} %{ARCH}", package)

    assert about == f"{agent_package.version()} {agent_tree.EPOCH} fleetwatch.invalid noarch"


def test_what_is_installed_is_the_agent(package, tmp_path):
    _change(tmp_path, "-i", package)

    said = subprocess.run(
        [tmp_path / "usr/bin/fleetwatch-agent", "--version"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said == f"fleetwatch-agent {agent_package.version()}\n"
    assert (
        tmp_path / "usr/lib/fleetwatch-agent/fleetwatch-agent.pyz"
    ).read_bytes() == agent_package.build()
    assert (tmp_path / SETTINGS).read_bytes() == agent_tree.SETTINGS.read_bytes()


def test_an_upgrade_whose_settings_read_otherwise_keeps_the_hosts(package, tmp_path, monkeypatch):
    host = tmp_path / "host"
    host.mkdir()
    _change(host, "-i", package)
    (host / SETTINGS).write_text(TOLD)
    monkeypatch.setattr(agent_tree, "SETTINGS", tmp_path / "environment")
    (tmp_path / "environment").write_text("# other comments\n")

    _change(host, "-U", _packed(tmp_path, "99.0.0"))

    assert (host / SETTINGS).read_text() == TOLD
    assert (host / SETTINGS).stat().st_mode & 0o777 == 0o600
    assert _rpm("--root", host, "-q", "fleetwatch-agent") == "fleetwatch-agent-99.0.0-1.noarch\n"


def test_removing_keeps_the_queue_and_sets_edited_settings_aside_for_root_alone(package, tmp_path):
    _change(tmp_path, "-i", package)
    (tmp_path / SETTINGS).write_text(TOLD)
    queued = tmp_path / "var/lib/fleetwatch-agent/1.batch"
    queued.parent.mkdir(parents=True)
    queued.write_bytes(b"batch")

    _change(tmp_path, "-e", "fleetwatch-agent")

    assert not (tmp_path / "usr/lib/fleetwatch-agent").exists()
    assert not (tmp_path / SETTINGS).exists()
    aside = tmp_path / f"{SETTINGS}.rpmsave"
    assert (aside.read_text(), aside.stat().st_mode & 0o777) == (TOLD, 0o600)
    assert queued.read_bytes() == b"batch"


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
@pytest.mark.parametrize("name", ["POSTIN", "PREUN", "POSTUN"])
def test_its_scriptlets_please_shellcheck(package, tmp_path, name):
    (tmp_path / name).write_text("#!/bin/sh\n" + _rpm("-qp", "--qf", f"%{{{name}}}", package))

    done = subprocess.run(["shellcheck", str(tmp_path / name)], capture_output=True, text=True)

    assert done.stdout == ""
